// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "profile/energy_counter.hpp"

namespace shard8::profile {

/// The smallest, mean and largest of some samples.
struct Sampled {
  double min = 0, max = 0, sum = 0;
  std::int64_t samples = 0;

  void add(double value);
  double mean() const { return samples > 0 ? sum / static_cast<double>(samples) : 0; }
};

/// What one counter counted.
struct CountedEnergy {
  EnergyKind kind = EnergyKind::package;
  std::string name{};
  double joules = 0, seconds = 0;          ///< of the measured steps
  double run_joules = 0, run_seconds = 0;  ///< since the meter was made
  /// Of the measured steps, by samples. Watts are those between two samples, by the counter. Without samples, the
  /// counter does not tell it, or the steps were too short (kShortest_s).
  Sampled watts{}, sm_mhz{}, memory_mhz{}, at_limit{};
  std::optional<double> limit_w{};  ///< the lowest that was seen
  std::string failed{};             ///< why it could not be read to the end; empty: it was
};

/// Reads counters from a thread of its own, which calls no MPI, so that none wraps around unseen. Chosen: RAPL's
/// smallest ranges last for minutes, and a second is long beside the 0.1 s after which an NVIDIA device renews its
/// counter.
class EnergyMeter {
 public:
  static constexpr std::chrono::milliseconds kInterval{1000};
  static constexpr double kShortest_s =
      0.5;  ///< watts of a shorter time are no sample: counters are renewed too rarely

  static constexpr double kStandsStill_s = 2;  ///< a counter that shows the same for longer is not counting

  /// Reads all counters. Without an `interval` there is no thread, and only the functions below read.
  explicit EnergyMeter(std::vector<std::unique_ptr<EnergyCounter>> counters,
                       std::chrono::milliseconds interval = kInterval);
  ~EnergyMeter();
  EnergyMeter(const EnergyMeter&) = delete;
  EnergyMeter& operator=(const EnergyMeter&) = delete;

  void sample();  ///< reads all counters
  void begin();   ///< reads all counters; the measured steps begin
  void end();     ///< reads all counters; the measured steps end
  void pause();   ///< reads all counters; what follows is of no measured step
  void resume();  ///< reads all counters; the measured steps go on
  /// Reads all counters: their joules since the meter was made. Nothing if one failed. With `counted`, only counters
  /// of these kinds.
  std::optional<double> joules(const std::vector<EnergyKind>& counted);
  /// Reads all counters: what each of them counted so far. Steps that did not end have no joules.
  std::vector<CountedEnergy> counted();
  /// CPU time of the thread since it began, in seconds.
  double thread_cpu_s() const;

 private:
  enum class Steps : std::uint8_t { before, measured, paused, after };
  struct State {
    std::unique_ptr<EnergyCounter> counter;
    CountedEnergy counted;
    std::uint64_t counts = 0;
    std::chrono::steady_clock::time_point start{}, begin{}, sampled{};
    double begin_j = 0, sampled_j = 0;
    double paused_j = 0, paused_s = 0;  ///< since the meter was made
  };
  void read(State& state);
  void read_all();

  mutable std::mutex mutex_;
  std::vector<State> states_;
  Steps steps_ = Steps::before;
  std::condition_variable wake_;
  bool stops_ = false;
  double thread_cpu_s_ = 0;
  std::thread thread_;
};

}  // namespace shard8::profile

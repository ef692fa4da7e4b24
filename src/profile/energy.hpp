// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "profile/spread.hpp"

namespace shard8::profile {

/// What a counter of energy counts: everything that runs there, also for other programs.
enum class EnergyKind : std::uint8_t {
  gpu,      ///< a device with its memory (NVML)
  package,  ///< a processor (RAPL)
  dram      ///< the memory of a processor (RAPL)
};
inline constexpr int kEnergyKinds = 3;

/// The name in reports and files.
constexpr std::string_view name_of(EnergyKind kind) {
  constexpr std::string_view names[kEnergyKinds] = {"gpu", "package", "dram"};
  return names[static_cast<std::size_t>(kind)];
}

/// What a counter shows at one time. What it does not tell is empty.
struct EnergyReading {
  std::chrono::steady_clock::time_point at{};
  std::uint64_t counts = 0;         ///< in units of EnergyCounter::unit_j()
  std::optional<double> limit_w{};  ///< the power at which the clocks are lowered
  std::optional<double> sm_mhz{}, memory_mhz{};
  std::optional<bool> at_limit{};  ///< whether clocks are lowered because of power
  std::string error{};             ///< why nothing could be read, with a remedy; empty: it was read
};

/// A counter of energy of this node. Used by one thread at a time.
class EnergyCounter {
 public:
  virtual ~EnergyCounter() = default;

  virtual EnergyKind kind() const = 0;
  /// Which one of its kind on the node: "GPU-..." (UUID), "package-0", "package-0/dram".
  virtual const std::string& name() const = 0;
  virtual double unit_j() const = 0;  ///< joules of a count
  /// The number of counts after which the counter begins with 0 again; 0: it must not go back.
  virtual std::uint64_t range() const = 0;
  virtual EnergyReading read() = 0;
};

/// What cannot be read on a rank.
struct EnergyMissing {
  EnergyKind kind = EnergyKind::package;
  std::string why{};  ///< place, reason and remedy
};

/// The counters of a rank's device and of its node, and what cannot be read there.
struct EnergySources {
  std::vector<std::unique_ptr<EnergyCounter>> counters{};
  std::vector<EnergyMissing> missing{};

  void join(EnergySources&& others) {
    for (auto& counter : others.counters) counters.push_back(std::move(counter));
    for (auto& why : others.missing) missing.push_back(std::move(why));
  }
};

/// Names of a device that hold in every library and process. The device's number depends on CUDA_VISIBLE_DEVICES.
struct DeviceNames {
  std::string uuid{};  ///< "GPU-01234567-89ab-...", as CUDA tells it
  std::string pci{};   ///< "0000:1b:00.0"
};

/// The path of NVIDIA's management library: what the environment variable SHARD8_NVML says, or libnvidia-ml.so.1.
/// nvml_counter() loads the library.
std::string nvml_library();

/// The counter of the device's energy, with its clocks and its limit of power (NVML API reference:
/// nvmlDeviceGetTotalEnergyConsumption, in mJ since the driver was loaded). A slice of a device (MIG) has none.
EnergySources nvml_counter(const DeviceNames& device, const std::string& library = nvml_library());

/// Where Linux shows RAPL's counters: the environment variable SHARD8_POWERCAP, or /sys/class/powercap.
std::filesystem::path powercap_root();

/// The counters of the node's processors and of their memory: in `root` the zones intel-rapl:N named package-* and
/// their parts intel-rapl:N:M named dram (Linux, Documentation/power/powercap/powercap.rst; AMD's processors have the
/// same names). psys and intel-rapl-mmio count the same energy once more and are not read.
EnergySources rapl_counters(const std::filesystem::path& root = powercap_root());

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
  /// Samples of the measured steps: power, clocks, and whether clocks were lowered. Watts are those between two
  /// samples, by the counter. A figure without samples: the counter does not tell the figure, or the steps were too
  /// short (kShortest_s).
  Sampled watts{}, sm_mhz{}, memory_mhz{}, at_limit{};
  std::optional<double> limit_w{};  ///< the lowest that was seen
  std::string failed{};             ///< why it could not be read to the end; empty: it was
};

/// Reads counters from a thread of its own, which calls no MPI, so that none wraps around unseen. Chosen: RAPL's
/// smallest ranges last for minutes, and a second is long compared with the 0.1 s after which an NVIDIA device renews
/// its counter.
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
  /// Has the thread read all counters from now on, and returns at once: a reading of a GPU can take 10 ms. Without a
  /// thread, reads them.
  void start_reading();
  /// The joules of the counters of these kinds since the meter was made, at the last reading; waits for one that
  /// start_reading() has begun. Returns nothing if a counter failed.
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

  mutable std::mutex mutex_;  ///< of the readings
  std::vector<State> states_;
  Steps steps_ = Steps::before;
  std::mutex requests_;  ///< of what follows; never held while counters are read
  std::condition_variable wake_, over_;
  bool stops_ = false, wanted_ = false;  ///< wanted_: start_reading() was called, and the reading is not over
  double thread_cpu_s_ = 0;
  std::thread thread_;
};

/// Where a rank runs, for counters that ranks share.
struct EnergyPlace {
  int rank = 0;
  std::string node{};  ///< identifies the node: ranks with the same text are on one
  std::string host{};  ///< the node's name
};

/// The counters of a job, each once. On rank 0; empty on others.
struct EnergyDirectory {
  struct Counter {
    EnergyKind kind = EnergyKind::package;
    std::string name{}, node{}, host{};
    int reader = 0;            ///< the lowest rank that can read it
    std::vector<int> ranks{};  ///< the ranks that use a device, or all ranks of a processor's node
  };
  struct Missing {
    EnergyKind kind = EnergyKind::package;
    std::string host{}, why{};
  };
  std::vector<Counter> counters{};  ///< in the order of their readers
  std::vector<Missing> missing{};   ///< what no rank of a node can read
  /// Kinds that were read wherever the job runs, so that their joules are those of the job. The list is the same on all
  /// ranks.
  std::vector<EnergyKind> complete{};
};

/// Agrees which rank reads which counter: those that remain in `mine` are for this rank. Collective.
EnergyDirectory share_counters(EnergySources& mine, const EnergyPlace& place, const Gather& gather);

/// What a rank counted, for the report.
struct EnergyCounts {
  EnergyDirectory directory{};           ///< rank 0 has it
  std::vector<CountedEnergy> counted{};  ///< by this rank
  double thread_cpu_s = 0;               ///< of its sampling
};

/// The energy of a job over its measured steps. On rank 0; empty on others.
struct EnergyFigures {
  struct Row : CountedEnergy {
    std::string host{}, node{};
    std::vector<int> ranks{};
  };
  struct Node {
    std::string host{};
    double joules = 0, watts = 0;  ///< of the kinds in `complete`
  };
  std::vector<Row> rows{};  ///< each counter
  std::vector<Node> nodes{};
  std::vector<EnergyDirectory::Missing> missing{};
  std::vector<EnergyKind> complete{};          ///< kinds that every node read to the end; sums are over these kinds
  std::array<double, kEnergyKinds> by_kind{};  ///< joules
  double joules = 0, seconds = 0;              ///< seconds: of the counter that was read for longest
  double run_joules = 0, run_seconds = 0;      ///< from the begin of the run on, start-up included
  std::int64_t steps = 0;
  double tokens = 0;          ///< of these steps; 0: nothing was trained
  double sampling_share = 0;  ///< CPU time of the thread that samples, as share of a core; of the rank with the most

  bool known() const { return !complete.empty() && seconds > 0; }
  double watts() const { return seconds > 0 ? joules / seconds : 0; }
  /// What was not read, on which host, and why; empty: every counter was read to the end.
  std::string missing_text() const;
};

/// The energy of a job from what each rank counted. Collective.
EnergyFigures energy_over_ranks(const EnergyCounts& mine, std::int64_t steps, double tokens, const Gather& gather);

/// The lines of the report.
std::string to_text(const EnergyFigures& figures);

/// The objects "energy" and "energy_missing" of summary.json, as the members of a JSON object.
std::string to_json(const EnergyFigures& figures);

}  // namespace shard8::profile

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>

#include "kernels/libraries.hpp"
#include "operation/executor.hpp"
#include "train/setup.hpp"

namespace shard8::project {

/// Gives the seconds of an operation that computes.
class ComputingTimes {
 public:
  virtual ~ComputingTimes() = default;
  virtual double seconds(const operation::Operation& operation) const = 0;
  /// How ranks differ; 0: not known. See machine::Machine::spread_calls, spread_ranks and spread_steps.
  struct Spread {
    double calls_s = 0, ranks = 0, steps = 0;
  };
  virtual Spread spread() const { return {}; }
};

/// The times that run.skeleton_times names; null if it is empty. `said` is set to a line for the header.
/// - A machine file (YAML): each operation has its time there (machine::Times).
/// - The output folder of a run, or its summary (JSON): the mean over the run's ranks of each part of forward and
///   backward, of the optimizer and of quantize is divided among the operations of the run's own step, products and
///   attention by FLOPs (those of 8-bit products count half), kernels by bytes. So a step of another deck has the rates
///   of the run. Operations of other phases have the rate of all kernels.
/// Throws Error(deck) where the file cannot be read or has not what the steps of `setup` need.
std::unique_ptr<ComputingTimes> read_skeleton_times(const train::Setup& setup, std::string& said);

/// As read_skeleton_times(), once the times of all operations of the steps of `setup` were found: throws what looking
/// one of them up throws.
std::unique_ptr<ComputingTimes> require_skeleton_times(const train::Setup& setup, std::string& said);

/// Makes the waits of a rank longer or shorter, as ComputingTimes::Spread says. The mean over ranks and steps stays.
class UnevenWaits {
 public:
  /// The waits of rank `rank` of `ranks`. Ranks are spread evenly over a normal distribution, neighbours far from each
  /// other; what changes from step to step and from collective to collective is drawn from one.
  UnevenWaits(const ComputingTimes::Spread& spread, int rank, int ranks);
  void begin_step() { factor_ = of_rank_ + spread_.steps * normal_(random_); }
  /// To be called after a collective for which ranks wait.
  void met() { later_s_ += spread_.calls_s * normal_(random_); }
  /// So many seconds of the next waits have passed already.
  void passed(double seconds) { later_s_ -= seconds; }
  /// The seconds of the next wait, which without a spread would take `seconds`. A wait is never below 0: what is left
  /// then shortens the wait after it.
  double next(double seconds) {
    const double due = factor_ * seconds + later_s_;
    later_s_ = std::min(0.0, due);
    return std::max(0.0, due);
  }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  ComputingTimes::Spread spread_;
  double of_rank_ = 1, factor_ = 1, later_s_ = 0;
};

/// Waits as long as run.skeleton_times says. The times are looked up once for operations that are alike. Ranks
/// differ as ComputingTimes::spread says.
class SkeletonWaits final : public operation::Waits {
 public:
  /// Looks up the times of all operations of `setup`, so that later calls throw nothing. `times` may be null: then no
  /// time passes. Throws as read_skeleton_times and kernels::Waiter do.
  SkeletonWaits(const tensor::Exec& exec, const train::Setup& setup, std::unique_ptr<ComputingTimes> times);

  void wait(const tensor::Exec& exec, const operation::Place& place, const operation::Product& product) override;
  void wait(const tensor::Exec& exec, const operation::Place& place, const operation::Attention& attention) override;
  void wait(const tensor::Exec& exec, const operation::Place& place, const operation::Kernel& kernel) override;
  void begin_step() override;
  void met() override;
  void advanced(double seconds) override;

  /// Seconds of a step in which the object waits: neither the first nor the last of a run.
  double step_s() const { return step_s_; }

 private:
  /// What tells operations with different times apart.
  using Key = std::tuple<profile::Phase, std::string_view, std::int64_t, std::int64_t, std::int64_t, std::uint64_t,
                         std::uint64_t>;
  template <class What>
  void wait_for(const tensor::Exec& exec, const operation::Place& place, const What& what);
  double look_up(const Key& key, const operation::Operation& operation);

  std::unique_ptr<ComputingTimes> times_;
  kernels::Waiter waiter_;
  std::map<Key, double> seconds_;
  double step_s_ = 0;
  UnevenWaits uneven_;
};

}  // namespace shard8::project

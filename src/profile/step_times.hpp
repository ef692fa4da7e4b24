// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "profile/phase.hpp"
#include "profile/trace_recorder.hpp"

namespace shard8::profile {

/// Seconds of one step on this rank, or of several steps together.
struct StepTimes {
  double total = 0;
  std::array<double, kPhases> phase{};
  std::array<std::array<double, kParts>, 2> part{};  ///< [0] inside forward, [1] inside backward
  /// tensor_comm of forward plus backward, by exchange; [kExchanges]: what counts as no exchange.
  std::array<double, kExchanges + 1> exchange{};
  double experts = 0;  ///< gemm of forward plus backward: products of experts

  StepTimes& operator+=(const StepTimes& other);
};

/// The times of a run's steps on this rank, in memory that does not grow with the steps: 312 bytes for each of at most
/// 4096 blocks of consecutive steps. A block is one step until there are more measured steps than blocks. Then two
/// neighbours become one block, again and again: all blocks but the last have the same power of two of steps. Sums are
/// of all steps. The steps before the first block, which figures leave out, are only counted and summed up.
///
/// Each block also has the duration of one of its steps, which is drawn so that each of its steps is equally likely.
/// The draws depend on the number of the step alone, so all ranks that record the same steps draw the same ones.
/// A percentile p of n drawn steps lies, with 95 % probability, between the percentiles p ± 196·√(p(1 − p)/n) of all
/// steps (p as a share): with 2048 steps, the fewest of a run of more than 4096, between 47.8 and 52.2, 94.1 and 95.9,
/// 98.6 and 99.4.
class StepRecord {
 public:
  /// Chosen: all but long runs keep every step, and percentiles of half as many are still well known.
  static constexpr std::size_t kMostBlocks = 4096;

  struct Block {
    StepTimes sum;  ///< of its steps
    std::int64_t steps = 0;
    double drawn_s = 0;  ///< duration of the step that was drawn
  };

  /// Figures leave out the first `skip` steps. `most_blocks` must be even.
  explicit StepRecord(std::int64_t skip = 0, std::size_t most_blocks = kMostBlocks)
      : skip_(skip), most_blocks_(most_blocks) {}

  /// Takes the memory for `steps` more steps, so that add() allocates none.
  void reserve(std::int64_t steps);
  void add(const StepTimes& step);

  std::span<const Block> blocks() const { return blocks_; }
  /// Steps of every block but the last, which may have fewer.
  std::int64_t block_steps() const { return block_steps_; }
  std::int64_t skipped() const { return skipped_; }
  std::int64_t measured() const { return measured_; }  ///< steps in blocks
  const StepTimes& sum() const { return sum_; }        ///< of the measured steps
  const StepTimes& skipped_sum() const { return skipped_sum_; }

 private:
  void merge_neighbours();

  std::int64_t skip_;
  std::size_t most_blocks_;
  std::vector<Block> blocks_;
  std::int64_t block_steps_ = 1;
  std::int64_t skipped_ = 0, measured_ = 0;
  StepTimes sum_, skipped_sum_;
};

/// Work that a host issues to a device. The host's own clock times it. On hosts issuing is the work itself.
enum class Issue : std::uint8_t { gather, layer_forward, layer_backward, optimizer };
inline constexpr int kIssues = 4;
std::string_view name_of(Issue issue);

/// Durations of any number of calls, in 29 kB. Number, sum and maximum are exact. The median is exact for up to 1024
/// calls; of more it is the lower one of the two middle calls, known to 0.8 %.
class CallTimes {
 public:
  CallTimes() { first_.reserve(kExact); }

  /// `seconds` must not be negative.
  void add(double seconds);
  std::uint64_t calls() const { return calls_; }
  double sum_s() const { return sum_s_; }
  double longest_s() const { return longest_s_; }  ///< 0 without calls
  /// The median, interpolated as percentile() does for up to 1024 calls; 0 without calls.
  double median_s() const;
  void clear();

 private:
  static constexpr std::size_t kExact = 1024;  ///< calls of which each time is kept; chosen: 8 kB
  /// Bins are 1/64 of a power of two wide, from 1 ns up to 2^40 ns, 18 minutes: the middle of a bin is at most 1/128
  /// off. Shorter calls are in the first bin, longer ones in the last.
  static constexpr int kPowers = 40, kBins = 64;

  std::uint64_t calls_ = 0;
  double sum_s_ = 0, longest_s_ = 0;
  std::vector<double> first_;  ///< of the first kExact calls
  std::array<std::uint64_t, std::size_t{kPowers} * kBins> counts_{};
};

/// Host seconds of calls, by what they issue.
class IssueTimes {
 public:
  using Clock = std::chrono::steady_clock;
  /// Times one call from construction to destruction.
  class Scope {
   public:
    /// `trace` is told of the call; it may be null.
    Scope(IssueTimes& times, Issue issue, TraceRecorder* trace = nullptr)
        : times_(times), issue_(issue), trace_(trace), began_(Clock::now()) {}
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() {
      const auto end = Clock::now();
      times_.add(issue_, std::chrono::duration<double>(end - began_).count());
      if (trace_ != nullptr) trace_->add_issue(issue_, nanoseconds(began_), nanoseconds(end));
    }

   private:
    static std::int64_t nanoseconds(Clock::time_point time) {
      return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
    }
    IssueTimes& times_;
    Issue issue_;
    TraceRecorder* trace_;
    Clock::time_point began_;
  };

  void add(Issue issue, double seconds) { calls_[static_cast<std::size_t>(issue)].add(seconds); }
  const CallTimes& calls(Issue issue) const { return calls_[static_cast<std::size_t>(issue)]; }
  void clear() {
    for (CallTimes& calls : calls_) calls.clear();
  }

 private:
  std::array<CallTimes, kIssues> calls_;
};

}  // namespace shard8::profile

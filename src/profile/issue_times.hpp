// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "profile/trace_recorder.hpp"

namespace shard8::profile {

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
  static constexpr std::size_t kExact = 1024;  ///< calls; chosen: their median is as good as kept in 8 kB
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

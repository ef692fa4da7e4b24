// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace shard8::profile {

class TraceRecorder;

enum class Collective : std::uint8_t { all_gather, reduce_scatter, all_reduce, all_to_all, send_receive };
std::string_view name_of(Collective op);

/// Whether data decide how many bytes a call of the operation moves, so that each call may move others: all_to_all and
/// send_receive. The shapes of tensors decide it for the other operations.
bool bytes_vary(Collective op);

/// A collective call, or a kind of calls. A call that moves tensors of several dtypes counts as one call of each dtype:
/// with the bytes of that dtype, and with a share of the time in proportion to these bytes.
struct CollectiveKey {
  Collective op;
  std::string group;  ///< "shard", "tensor", "replicate", "world", ...
  int group_size;     ///< ranks
  std::string dtype;  ///< the name of the dtype
  /// Bytes of the whole, as nccl-tests counts them: the gathered output of an all-gather, the input of a
  /// reduce-scatter, the buffer of an all-reduce, all that this rank gives to an all-to-all, its own part included, or
  /// to a send_receive.
  std::uint64_t bytes;
  auto operator<=>(const CollectiveKey&) const = default;
};

/// The kind that CollectiveLog counts a call under: the call itself, but with 0 bytes if bytes_vary(). So there are no
/// more kinds than shapes, however many calls a run makes.
CollectiveKey kind_of(CollectiveKey call);

/// All collectives of one operation in one group.
struct CollectiveGroup {
  Collective op;
  std::string group;
  int group_size;
  auto operator<=>(const CollectiveGroup&) const = default;
};

struct CollectiveStats {
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;  ///< of all calls together
  double total_s = 0;       ///< from start to completion, as this rank saw them; calls in flight at once add up
  double exposed_s = 0;     ///< the part of total_s in which this rank only waited
};

/// Measures for how long at least one of several collectives was in flight, the union of their intervals. Times must
/// not go back.
class InFlight {
 public:
  using Clock = std::chrono::steady_clock;

  void began(Clock::time_point now) {
    if (calls_++ == 0) since_ = now;
  }
  void ended(Clock::time_point now) {
    if (--calls_ == 0) count_until(now);
  }
  /// From `now` on time counts, or does not. Collectives may be in flight.
  void set_measuring(bool on, Clock::time_point now);
  /// Adds the time of a call that nobody told began() of.
  void add(double seconds) {
    if (measuring_) seconds_ += seconds;
  }
  void clear(Clock::time_point now);
  /// Seconds of the intervals that are over.
  double seconds() const { return seconds_; }

 private:
  void count_until(Clock::time_point now);

  int calls_ = 0;
  bool measuring_ = true;
  Clock::time_point since_{};  ///< with calls in flight: time is counted until then
  double seconds_ = 0;
};

/// Counts this rank's collectives by kind. A collective counts if the log is measuring when it is recorded. A log
/// measures from the start; a run switches it off during the steps that its report leaves out.
class CollectiveLog {
 public:
  void set_measuring(bool on, InFlight::Clock::time_point now = InFlight::Clock::now());
  bool measuring() const { return measuring_; }
  /// Adds one call that took `total_s` seconds, of which `exposed_s` were spent waiting.
  void record(const CollectiveKey& key, double total_s, double exposed_s);
  /// A collective is in flight from began() to ended(), measuring or not. Every began() has its ended(). Times must not
  /// go back.
  void began(const CollectiveGroup& group, InFlight::Clock::time_point now);
  void ended(const CollectiveGroup& group, InFlight::Clock::time_point now);
  /// On devices, whose calls are timed when they are over: adds the time of one call if the log is measuring. Calls of
  /// one stream follow each other, those of several may overlap and are added up all the same.
  void add_in_flight(const CollectiveGroup& group, double seconds);
  /// Removes all entries and times. Leaves measuring() and the watcher unchanged.
  void clear(InFlight::Clock::time_point now = InFlight::Clock::now());
  /// The statistics of calls by their kind, kind_of().
  const std::map<CollectiveKey, CollectiveStats>& entries() const { return entries_; }
  /// Time in flight by operation and group, and of any collective.
  const std::map<CollectiveGroup, InFlight>& in_flight() const { return in_flight_; }
  const InFlight& any_in_flight() const { return any_in_flight_; }

  /// Functions that are called for every collective with its own bytes, measuring or not. Tests set them to compare a
  /// step with its list of operations; a run sets none.
  struct Watcher {
    std::function<void(const CollectiveKey& key)> issued;    ///< called when the collective is issued
    std::function<void(const CollectiveKey& key)> recorded;  ///< called by record(): on hosts, after the wait
  };
  void set_watcher(Watcher watcher) { watcher_ = std::move(watcher); }
  const Watcher& watcher() const { return watcher_; }

  /// From now on callers tell `recorder` of their calls; null: nobody. `recorder` must outlive the log or be replaced.
  void set_trace(TraceRecorder* recorder) { trace_ = recorder; }
  TraceRecorder* trace() const { return trace_; }

 private:
  TraceRecorder* trace_ = nullptr;
  Watcher watcher_;
  InFlight& in_flight_of(const CollectiveGroup& group, InFlight::Clock::time_point now);

  std::map<CollectiveKey, CollectiveStats> entries_;
  std::map<CollectiveGroup, InFlight> in_flight_;
  InFlight any_in_flight_;
  bool measuring_ = true;
};

/// Bandwidths in bytes/s. algbw = bytes / time. busbw = algbw·(n−1)/n for all-gather, reduce-scatter and all-to-all,
/// algbw·2(n−1)/n for all-reduce and algbw for send_receive, with n = group_size. Both bandwidths are 0 when the time
/// is 0. Source: https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
double algbw(const CollectiveKey& key, double seconds_per_call);
double busbw(const CollectiveKey& key, double seconds_per_call);

}  // namespace shard8::profile

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace shard8::profile {

class TraceRecorder;

enum class Collective : std::uint8_t { all_gather, reduce_scatter, all_reduce };
std::string_view name_of(Collective op);

/// One kind of collective call. A call that moves tensors of several dtypes counts as one call of each dtype: with the
/// bytes of that dtype, and with a share of the time in proportion to these bytes.
struct CollectiveKey {
  Collective op;
  std::string group;  ///< "shard", "tensor", "replicate", "world", ...
  int group_size;     ///< ranks
  std::string dtype;  ///< its name
  /// Bytes of the whole, as nccl-tests counts them: the gathered output of an all-gather, the input of a
  /// reduce-scatter, the buffer of an all-reduce.
  std::uint64_t bytes;
  auto operator<=>(const CollectiveKey&) const = default;
};

struct CollectiveStats {
  std::uint64_t calls = 0;
  double total_s = 0;    ///< from start to completion, as this rank saw them
  double exposed_s = 0;  ///< the part of total_s in which this rank only waited
};

/// Counts this rank's collectives by kind. A collective counts if the log is measuring when it is recorded. A log
/// measures from the start; a run switches it off during the steps that its report leaves out.
class CollectiveLog {
 public:
  void set_measuring(bool on) { measuring_ = on; }
  bool measuring() const { return measuring_; }
  /// Adds one call that took `total_s` seconds, of which `exposed_s` were spent waiting.
  void record(const CollectiveKey& key, double total_s, double exposed_s);
  /// Removes all entries. Leaves measuring() and the watcher unchanged.
  void clear();
  const std::map<CollectiveKey, CollectiveStats>& entries() const { return entries_; }

  /// Functions that are called for every collective, measuring or not. Tests set them to compare a step with its list
  /// of operations; a run sets none.
  struct Watcher {
    std::function<void(const CollectiveKey& key)> issued;    ///< called when the collective is issued
    std::function<void(const CollectiveKey& key)> recorded;  ///< called by record(): on hosts, after the wait
  };
  void set_watcher(Watcher watcher) { watcher_ = std::move(watcher); }
  const Watcher& watcher() const { return watcher_; }

  /// From now on callers tell `recorder` of their calls; null: nobody. It must outlive the log or be replaced.
  void set_trace(TraceRecorder* recorder) { trace_ = recorder; }
  TraceRecorder* trace() const { return trace_; }

 private:
  TraceRecorder* trace_ = nullptr;
  Watcher watcher_;
  std::map<CollectiveKey, CollectiveStats> entries_;
  bool measuring_ = true;
};

/// Bandwidths in bytes/s. algbw = bytes / time. busbw = algbw·(n−1)/n for all-gather and reduce-scatter,
/// algbw·2(n−1)/n for all-reduce, with n = group_size. Both are 0 when the time is 0.
/// Source: https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
double algbw(const CollectiveKey& key, double seconds_per_call);
double busbw(const CollectiveKey& key, double seconds_per_call);

}  // namespace shard8::profile

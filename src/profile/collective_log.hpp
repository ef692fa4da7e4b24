// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace shard8::profile {

enum class Collective : std::uint8_t { all_gather, reduce_scatter, all_reduce };
std::string_view name_of(Collective op);

/// What one kind of collective call is: operation, group ("shard", "tensor", "replicate", "world"),
/// dtype name and bytes as nccl-tests counts them (the size of the whole: all-gather the gathered
/// output, reduce-scatter the input before reduction, all-reduce the buffer). A call that groups
/// tensors of several dtypes is one of each: with the bytes of that dtype, and a share of the time in
/// proportion to them.
struct CollectiveKey {
  Collective op;
  std::string group;
  int group_size;
  std::string dtype;
  std::uint64_t bytes;
  auto operator<=>(const CollectiveKey&) const = default;
};

struct CollectiveStats {
  std::uint64_t calls = 0;
  double total_s = 0;    ///< from start to completion as this rank saw it
  double exposed_s = 0;  ///< of that, time in which this rank did nothing but wait
};

/// Counts every collective of this rank that ends while it is measuring (from the start on; a run
/// switches it off for the steps left out).
class CollectiveLog {
 public:
  void set_measuring(bool on) { measuring_ = on; }
  bool measuring() const { return measuring_; }
  void record(const CollectiveKey& key, double total_s, double exposed_s);
  void clear();
  const std::map<CollectiveKey, CollectiveStats>& entries() const { return entries_; }

  /// Is told of every collective when it is issued, and when it is recorded: on hosts when it was waited for. For
  /// tests; runs have none.
  struct Watcher {
    std::function<void(const CollectiveKey& key)> issued, recorded;
  };
  void set_watcher(Watcher watcher) { watcher_ = std::move(watcher); }
  const Watcher& watcher() const { return watcher_; }

 private:
  Watcher watcher_;
  std::map<CollectiveKey, CollectiveStats> entries_;
  bool measuring_ = true;
};

/// Bytes/s as nccl-tests defines them: algbw = bytes/time; busbw = algbw·(n−1)/n for all-gather and
/// reduce-scatter, algbw·2(n−1)/n for all-reduce. 0 for no time
/// (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).
double algbw(const CollectiveKey& key, double seconds_per_call);
double busbw(const CollectiveKey& key, double seconds_per_call);

}  // namespace shard8::profile

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/collective_log.hpp"

namespace shard8::profile {

std::string_view name_of(Collective op) {
  switch (op) {
    case Collective::all_gather:
      return "all_gather";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::all_reduce:
      return "all_reduce";
  }
  return "?";
}

void CollectiveLog::record(const CollectiveKey& key, double total_s, double exposed_s) {
  if (watcher_.recorded) watcher_.recorded(key);
  if (!measuring_) return;
  CollectiveStats& stats = entries_[key];
  ++stats.calls;
  stats.total_s += total_s;
  stats.exposed_s += exposed_s;
}

void CollectiveLog::clear() { entries_.clear(); }

double algbw(const CollectiveKey& key, double seconds_per_call) {
  return seconds_per_call > 0 ? static_cast<double>(key.bytes) / seconds_per_call : 0;
}

double busbw(const CollectiveKey& key, double seconds_per_call) {
  const double n = key.group_size;
  const double bandwidth = algbw(key, seconds_per_call);
  switch (key.op) {
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return bandwidth * (n - 1) / n;
    case Collective::all_reduce:
      return bandwidth * 2 * (n - 1) / n;
  }
  return 0;
}

}  // namespace shard8::profile

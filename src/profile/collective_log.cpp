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
    case Collective::all_to_all:
      return "all_to_all";
    case Collective::send_receive:
      return "send_receive";
  }
  return "?";
}

bool bytes_vary(Collective op) { return op == Collective::all_to_all || op == Collective::send_receive; }

CollectiveKey kind_of(CollectiveKey call) {
  if (bytes_vary(call.op)) call.bytes = 0;
  return call;
}

void CollectiveLog::record(const CollectiveKey& key, double total_s, double exposed_s) {
  if (watcher_.recorded) watcher_.recorded(key);
  if (!measuring_) return;
  CollectiveStats& stats = entries_[kind_of(key)];
  ++stats.calls;
  stats.bytes += key.bytes;
  stats.total_s += total_s;
  stats.exposed_s += exposed_s;
}

void CollectiveLog::set_measuring(bool on, InFlight::Clock::time_point now) {
  measuring_ = on;
  for (auto& [group, time] : in_flight_) time.set_measuring(on, now);
  any_in_flight_.set_measuring(on, now);
}

InFlight& CollectiveLog::in_flight_of(const CollectiveGroup& group, InFlight::Clock::time_point now) {
  const auto [at, is_new] = in_flight_.try_emplace(group);
  if (is_new) at->second.set_measuring(measuring_, now);
  return at->second;
}

void CollectiveLog::began(const CollectiveGroup& group, InFlight::Clock::time_point now) {
  in_flight_of(group, now).began(now);
  any_in_flight_.began(now);
}

void CollectiveLog::ended(const CollectiveGroup& group, InFlight::Clock::time_point now) {
  in_flight_of(group, now).ended(now);
  any_in_flight_.ended(now);
}

void CollectiveLog::add_in_flight(const CollectiveGroup& group, double seconds) {
  in_flight_of(group, {}).add(seconds);
  any_in_flight_.add(seconds);
}

void CollectiveLog::clear(InFlight::Clock::time_point now) {
  entries_.clear();
  for (auto& [group, time] : in_flight_) time.clear(now);
  any_in_flight_.clear(now);
}

void InFlight::count_until(Clock::time_point now) {
  if (measuring_ && now > since_) seconds_ += std::chrono::duration<double>(now - since_).count();
  since_ = now;
}

void InFlight::set_measuring(bool on, Clock::time_point now) {
  if (calls_ > 0) count_until(now);
  measuring_ = on;
}

void InFlight::clear(Clock::time_point now) {
  if (calls_ > 0) count_until(now);
  seconds_ = 0;
}

double algbw(const CollectiveKey& key, double seconds_per_call) {
  return seconds_per_call > 0 ? static_cast<double>(key.bytes) / seconds_per_call : 0;
}

double busbw(const CollectiveKey& key, double seconds_per_call) {
  const double n = key.group_size;
  const double bandwidth = algbw(key, seconds_per_call);
  switch (key.op) {
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return bandwidth * (n - 1) / n;
    case Collective::all_reduce:
      return bandwidth * 2 * (n - 1) / n;
    case Collective::send_receive:
      return bandwidth;
  }
  return 0;
}

}  // namespace shard8::profile

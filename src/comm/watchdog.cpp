// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/watchdog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

namespace shard8::comm {

Watchdog::Watchdog(std::chrono::milliseconds interval, Look look, Alarm alarm)
    : interval_(interval), look_(std::move(look)), alarm_(std::move(alarm)), thread_([this] { run(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

std::optional<std::string> Watchdog::look() const {
  try {
    return look_();
  } catch (const std::exception& e) {
    return e.what();
  }
}

void Watchdog::run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, interval_, [this] { return over_; })) {
    lock.unlock();
    if (const auto wrong = look()) {
      alarm_(*wrong);
      return;
    }
    lock.lock();
  }
}

std::string late_peers(const CallNumbers& call, std::span<const std::uint32_t> ready,
                       std::span<const std::uint32_t> done) {
  const int chunks = static_cast<std::int32_t>(call.last - call.first) + 1;
  const auto since_first = [&](std::uint32_t number) {
    return std::int64_t{static_cast<std::int32_t>(number - call.first)} + 1;
  };
  const auto given = [&](int r) {
    return static_cast<int>(std::clamp<std::int64_t>(since_first(done[static_cast<std::size_t>(r)]), 0, chunks));
  };
  // In turns, the stream of this rank waits for the first chunk that not all peers have given.
  int all_gave = chunks;
  for (int r = 0; r < call.size; ++r)
    if (r != call.rank) all_gave = std::min(all_gave, given(r));
  if (all_gave == chunks) return {};
  const int ready_for = call.in_turns ? all_gave + 1 : 1;
  const int awaited = call.in_turns ? all_gave + 1 : chunks;

  const auto ranks_that = [&](const auto& is) {
    std::vector<int> ranks;
    for (int r = 0; r < call.size; ++r)
      if (r != call.rank && is(r)) ranks.push_back(r);
    return ranks;
  };
  const auto absent = ranks_that([&](int r) { return since_first(ready[static_cast<std::size_t>(r)]) < ready_for; });
  // A rank that is there waits for the absent ones, so it may not have given its chunk either. It is not to blame.
  const auto late = absent.empty() ? ranks_that([&](int r) { return given(r) < awaited; }) : absent;
  if (absent.empty() ? chunks > 1 : all_gave > 0) {
    std::string text;
    for (const int r : late)
      text += fmt::format("{}rank {} of the group has given {} of {} chunks", text.empty() ? "" : ", ", r, given(r),
                          chunks);
    return text;
  }
  const bool one = late.size() == 1;
  const std::string named = fmt::format("{} {} of the group", one ? "rank" : "ranks", fmt::join(late, ", "));
  if (absent.empty()) return fmt::format("the data of {} have not arrived", named);
  return fmt::format("{} {} not come to it", named, one ? "has" : "have");
}

}  // namespace shard8::comm

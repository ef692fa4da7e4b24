// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/calls_under_way.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.hpp"

namespace shard8::comm::nccl {

void CallsUnderWay::add(Call& call, peer::CallWords words) {
  if (spare_.empty()) spare_.emplace_back();
  Entry& entry = spare_.front();
  entry.call = &call;
  entry.clock.issue(Clock::now());
  entry.words = std::move(words);
  const std::lock_guard lock(mutex_);
  list_.splice(list_.end(), spare_, spare_.begin());
  most_ = std::max(most_, list_.size());
}

CallsUnderWay::Entry& CallsUnderWay::entry_of(const Call& call) {
  const auto found =
      std::find_if(list_.rbegin(), list_.rend(), [&](const Entry& entry) { return entry.call == &call; });
  SHARD8_REQUIRE(found != list_.rend(), "call {} on the {} stream is not under way", call.subject().number, lane_);
  return *found;
}

void CallsUnderWay::extend(const Call& call, std::uint32_t last_number) {
  const std::lock_guard lock(mutex_);
  entry_of(call).words.numbers.extend_to(last_number);
}

void CallsUnderWay::launched(const Call& call) {
  const std::lock_guard lock(mutex_);
  entry_of(call).clock.launch();
}

void CallsUnderWay::remove_oldest() {
  const std::lock_guard lock(mutex_);
  spare_.splice(spare_.begin(), list_, list_.begin());
}

void CallsUnderWay::grow_to(std::size_t count) {
  while (list_.size() + spare_.size() < count) spare_.emplace_back();
}

std::string CallsUnderWay::describe(const Entry& entry, std::string_view problem, Clock::time_point now) const {
  const Call::Subject& call = entry.call->subject();
  std::uint64_t bytes = 0;
  std::string dtypes;
  for (const DTypeBytes& size : call.sizes) {
    bytes += size.bytes;
    dtypes += fmt::format("{}{}", dtypes.empty() ? "" : ", ", size.dtype);
  }
  return fmt::format("{}{} {} {} {:.0f} s: {} bytes of {}, call {} on the {} stream", name_of(call.op),
                     call.label.empty() ? std::string() : fmt::format(" for {}", call.label), where(*call.group),
                     problem, std::chrono::duration<double>(entry.clock.time(now)).count(), bytes, dtypes, call.number,
                     lane_);
}

std::optional<CallsUnderWay::Overdue> CallsUnderWay::find_overdue(Clock::time_point now, Clock::duration limit) {
  const std::lock_guard lock(mutex_);
  bool first = true;
  for (Entry& entry : list_) {
    const Call& call = *entry.call;
    const CallClock::State state = entry.clock.look(
        now, limit, first, [&] { return call.begin().happened(); }, [&] { return call.done().happened(); });
    if (state == CallClock::State::issue_overdue)
      return Overdue{describe(entry, "has not been given to the device: the host has been at it for", now), entry.words,
                     false};
    if (state == CallClock::State::running_overdue)
      return Overdue{describe(entry, "has been on the device for", now), entry.words, true};
    if (state != CallClock::State::complete) first = false;
  }
  return std::nullopt;
}

std::optional<std::string> CallsUnderWay::overdue(Clock::time_point now, Clock::duration limit,
                                                  const peer::WordsReader& reader) {
  const std::optional<Overdue> call = find_overdue(now, limit);
  if (!call) return std::nullopt;
  const std::optional<std::string> late = reader.late_peers(call->words);  // without the lock: the host may go on
  if (late && !late->empty()) return fmt::format("{}; {} (a rank hangs or a link is down)", call->text, *late);
  if (late && call->running)
    return fmt::format("{}; the data of all other ranks have arrived (this device hangs or a link is down)",
                       call->text);
  // The host may be at a later turn than the numbers tell, but at most one piece further.
  if (late && !call->words.numbers.in_turns)
    return call->text + "; no other rank is behind in what the host has given so far";
  return call->text + "; another rank does not take part in it, or a link is down";
}

}  // namespace shard8::comm::nccl

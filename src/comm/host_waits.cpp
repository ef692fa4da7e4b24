// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/host_waits.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

namespace shard8::comm {

HostWaits::Wait::Wait(HostWaits* waits, const Subject& subject, Clock::time_point began)
    : waits_(waits), subject_(subject), began_(began) {
  if (waits_ == nullptr) return;
  const std::lock_guard lock(waits_->mutex_);
  outer_ = waits_->innermost_;
  waits_->innermost_ = this;
  waits_->progress_.note();
}

HostWaits::Wait::~Wait() {
  if (waits_ == nullptr) return;
  const std::lock_guard lock(waits_->mutex_);
  waits_->innermost_ = outer_;
  waits_->progress_.note();
}

std::string HostWaits::Wait::describe(Clock::time_point now) const {
  const Subject& s = subject_;
  std::string text(s.operation);
  if (!s.label.empty()) text += fmt::format(" for {}", s.label);
  if (!s.group.empty()) text += fmt::format(" in group '{}' on its rank {} of {}", s.group, s.rank, s.size);
  if (s.call > 0) text += fmt::format(", call {}", s.call);
  if (s.bytes > 0) text += fmt::format(", {} bytes", s.bytes);
  text += fmt::format(": has waited {:.0f} s for ", std::chrono::duration<double>(now - began_).count());
  const int peer = peer_.load(std::memory_order_relaxed);
  text += peer == kNoPeer ? std::string("other ranks") : fmt::format("rank {} of the group", peer);
  const int chunk = chunk_.load(std::memory_order_relaxed);
  if (chunk != kNoPeer) text += fmt::format(", for the rows of rank {}", chunk);
  return text;
}

HostWaits::Unlimited::Unlimited(HostWaits* waits) : waits_(waits) {
  if (waits_ == nullptr) return;
  const std::lock_guard lock(waits_->mutex_);
  ++waits_->unlimited_;
  waits_->progress_.note();
}

HostWaits::Unlimited::~Unlimited() {
  if (waits_ == nullptr) return;
  const std::lock_guard lock(waits_->mutex_);
  --waits_->unlimited_;
  waits_->progress_.note();
}

void HostWaits::set_limits(const HangLimits& limits) {
  const std::lock_guard lock(mutex_);
  limits_ = limits;
}

void HostWaits::first_step_over() {
  const std::lock_guard lock(mutex_);
  first_step_over_ = true;
}

std::string HostWaits::allowed() const {
  const auto limit = first_step_over_ ? limits_.step : limits_.start;
  return fmt::format("run.hang_limit_s allows {} s{}", std::chrono::duration_cast<std::chrono::seconds>(limit).count(),
                     first_step_over_ ? "" : " before the end of the first step");
}

std::optional<std::string> HostWaits::overdue(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  // A gap between two looks that is much longer than their interval: the whole process was stopped.
  const Clock::duration passed = look_ ? std::min<Clock::duration>(now - *look_, 2 * limits_.interval()) : now - now;
  look_ = now;
  const std::uint64_t count = progress_.count();
  const bool works = unlimited_ == 0 && innermost_ == nullptr && count == seen_;
  seen_ = count;
  standing_ = works ? standing_ + passed : Clock::duration::zero();
  if (unlimited_ > 0) return std::nullopt;
  const auto limit = first_step_over_ ? limits_.step : limits_.start;
  for (const Wait* wait = innermost_; wait != nullptr; wait = wait->outer_)
    if (now - wait->began_ >= limit)
      return fmt::format("{}; a rank hangs or a link is down ({})", wait->describe(now), allowed());
  if (standing_ >= limit)
    return fmt::format(
        "the main thread has got no further for {:.0f} s since it noted '{}': it hangs, or needs more time for one "
        "operation ({})",
        std::chrono::duration<double>(standing_).count(), progress_.what(), allowed());
  return std::nullopt;
}

Waiting choose_waiting(int threads_on_node, int cores_on_node) {
  return threads_on_node > cores_on_node ? Waiting::yield : Waiting::spin;
}

std::string_view name_of(Waiting waiting) { return waiting == Waiting::spin ? "spin" : "yield"; }

void Pause::operator()() {
  if (waiting_ == Waiting::spin) return;
  const auto now = Clock::now();
  if (sleep_from_ == Clock::time_point{}) sleep_from_ = now + kYieldFor;
  if (now < sleep_from_) {
    ::sched_yield();
    return;
  }
  const timespec nap{0, std::chrono::nanoseconds(kSleep).count()};
  ::nanosleep(&nap, nullptr);
}

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
  // A rank that is there waits for the absent ones, so it may not have given its chunk either. Such a rank is not to
  // blame.
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

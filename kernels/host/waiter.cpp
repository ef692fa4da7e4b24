// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels/waiter.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <vector>

namespace shard8::kernels {

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

/// Chosen: larger than the caches of a core, small beside what a rank holds.
constexpr std::size_t kMemory = std::size_t{32} << 20;
constexpr std::size_t kPiece = std::size_t{64} << 10;  ///< bytes that are read at a time
/// Chosen: Linux wakes a thread up to 50 us late, and by as much later under load.
constexpr double kSpin_s = 100e-6;
constexpr double kMostLate_s = 1e-3;

void sleep(double seconds) {
  timespec time{};
  time.tv_sec = static_cast<time_t>(seconds);
  time.tv_nsec = static_cast<long>((seconds - static_cast<double>(time.tv_sec)) * 1e9);
  ::nanosleep(&time, nullptr);  // a signal ends it early: the caller looks at the clock
}

}  // namespace

struct Waiter::Parts {
  double bandwidth = 0;
  std::vector<std::uint64_t> memory{};
  std::size_t next = 0;  ///< element to read
  std::uint64_t sum = 0;
  std::uint64_t bytes = 0;  ///< read so far
  double late_s = 0;        ///< by which the waits so far ended late

  void read_piece() {
    constexpr std::size_t kCount = kPiece / sizeof(std::uint64_t);
    const auto* const begin = memory.data() + next;
    sum += std::accumulate(begin, begin + kCount, std::uint64_t{0});
    next = (next + kCount) % memory.size();
    bytes += kPiece;
  }
};

Waiter::Waiter(const tensor::Exec&, double read_bandwidth) : parts_(std::make_unique<Parts>()) {
  parts_->bandwidth = read_bandwidth;
  if (read_bandwidth > 0) parts_->memory.resize(kMemory / sizeof(std::uint64_t), 1);
}

Waiter::~Waiter() {
  // What was read is used, so that no compiler leaves the reads out.
  static volatile std::uint64_t all = 0;
  all = all + parts_->sum;
}

void Waiter::wait(const tensor::Exec&, double seconds) {
  if (seconds <= 0) return;
  const auto begin = Clock::now();
  const double wanted = seconds - parts_->late_s;
  const auto passed = [&] { return Seconds(Clock::now() - begin).count(); };
  double now = 0, read = 0;
  for (; now < wanted; now = passed()) {
    // The next thing to do: read, or wait for the end.
    double left = wanted - now;
    if (parts_->bandwidth > 0) {
      if (read <= now * parts_->bandwidth) {
        parts_->read_piece();
        read += static_cast<double>(kPiece);
        continue;
      }
      left = std::min(left, read / parts_->bandwidth - now);
    }
    if (left > 2 * kSpin_s)
      sleep(left - kSpin_s);
    else
      ::sched_yield();
  }
  parts_->late_s = std::clamp(now - wanted, -kMostLate_s, kMostLate_s);
}

std::size_t Waiter::memory() const { return parts_->memory.size() * sizeof(std::uint64_t); }

std::uint64_t Waiter::bytes_read() const { return parts_->bytes; }

}  // namespace shard8::kernels

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace shard8::comm {

/// How a rank waits for others. `spin` leaves it to the MPI library, which polls without pause: best
/// while every rank has a core. `yield` gives the core away between tests: best with more ranks on a
/// node than cores, where spinning costs a scheduler slice a wait.
enum class Waiting : std::uint8_t { spin, yield };

/// yield when there are more threads of ranks on the node than cores, else spin.
Waiting choose_waiting(int threads_on_node, int cores_on_node);
std::string_view name_of(Waiting waiting);

/// What a rank does between two tests of one wait. With `yield`, waits that end soon only yield the
/// core (a few microseconds a turn); one that lasts is a rank that computes elsewhere, and must not
/// be robbed of its core, so from then on the waiting one sleeps.
class Pause {
 public:
  static constexpr std::chrono::microseconds kYieldFor{200};
  static constexpr std::chrono::microseconds kSleep{20};

  explicit Pause(Waiting waiting) : waiting_(waiting) {}
  void operator()();

 private:
  using Clock = std::chrono::steady_clock;
  Waiting waiting_;
  Clock::time_point sleep_from_{};
};

}  // namespace shard8::comm

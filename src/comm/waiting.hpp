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

/// What a rank does between two tests of one wait. With `yield`, it yields the core for a moment,
/// which is enough where all ranks are about to end the same collective (a few microseconds a turn);
/// then it sleeps: a core that was yielded to a rank that computes does not come back before the end
/// of a scheduler slice, while a sleeper is woken into the middle of one.
class Pause {
 public:
  static constexpr std::chrono::microseconds kYieldFor{20};
  static constexpr std::chrono::microseconds kSleep{1};

  explicit Pause(Waiting waiting) : waiting_(waiting) {}
  void operator()();

 private:
  using Clock = std::chrono::steady_clock;
  Waiting waiting_;
  Clock::time_point sleep_from_{};
};

}  // namespace shard8::comm

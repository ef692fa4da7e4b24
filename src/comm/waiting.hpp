// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace shard8::comm {

/// How a rank waits for other ranks. `spin` waits in the MPI library, which polls without pause: best where every rank
/// has a core. `yield` gives the core away between tests: best where a node has more ranks than cores, because there
/// each wait that spins costs a scheduler slice.
enum class Waiting : std::uint8_t { spin, yield };

/// yield when the ranks of the node have more threads than the node has cores, else spin.
Waiting choose_waiting(int threads_on_node, int cores_on_node);
std::string_view name_of(Waiting waiting);

/// What a rank does between two tests of one wait. With `spin` it does nothing. With `yield` it first yields the core,
/// for kYieldFor: that is enough where all ranks are about to end the same collective (a few microseconds a turn). Then
/// it sleeps: a core that was yielded to a rank that computes comes back only at the end of a scheduler slice, but a
/// sleeper is woken in the middle of one.
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

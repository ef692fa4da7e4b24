// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace shard8::comm::nccl {

class NcclCommunicator;

/// What a watchdog asks beside the calls on the lanes: errors that NCCL meets in the background, and
/// calls that keep this rank's host waiting for other ranks.
class Health {
 public:
  using Clock = std::chrono::steady_clock;

  void add(const NcclCommunicator& communicator);
  void remove(const NcclCommunicator& communicator);

  /// While it lives, this rank is in a call that waits for others. One at a time.
  class HostCall {
   public:
    HostCall(Health& health, std::string what);
    ~HostCall();
    HostCall(const HostCall&) = delete;
    HostCall& operator=(const HostCall&) = delete;

   private:
    Health& health_;
  };
  [[nodiscard]] HostCall watch_host(std::string what) { return {*this, std::move(what)}; }

  /// What is wrong, if anything is. For another thread.
  std::optional<std::string> problem(Clock::time_point now, Clock::duration limit);

 private:
  std::mutex mutex_;
  std::vector<const NcclCommunicator*> communicators_;
  std::string host_call_;  ///< empty: none
  Clock::time_point host_call_began_{};
};

}  // namespace shard8::comm::nccl

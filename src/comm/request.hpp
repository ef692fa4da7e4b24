// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

namespace shard8::comm {

class DeviceCall;
class PendingCollective;

/// Destroys a collective, whose memory goes back to its group.
struct GiveBack {
  void (*give_back)(PendingCollective*) noexcept = nullptr;
  void operator()(PendingCollective* pending) const noexcept { give_back(pending); }
};

/// A collective under way. Move-only. An empty request is complete.
///
/// On hosts wait() blocks as the communicator's Waiting says, and records the call. On a device wait() returns at once,
/// and what the compute stream is given afterwards waits; a collective on the compute stream itself gives an empty
/// request. The destructor of a request that was never waited for waits.
class Request {
 public:
  using Pending = std::unique_ptr<PendingCollective, GiveBack>;

  Request();
  explicit Request(Pending pending);
  /// `call` may be null: complete in the order of the compute stream.
  explicit Request(DeviceCall* call);
  Request(Request&&) noexcept;
  Request& operator=(Request&&) noexcept;
  ~Request();

  void wait();
  /// Lets the library make progress. True when the collective is complete; wait() then returns at once.
  bool test();
  bool active() const { return pending_ != nullptr || call_ != nullptr; }

 private:
  void wait_or_die() noexcept;
  Pending pending_;
  DeviceCall* call_ = nullptr;
};

}  // namespace shard8::comm

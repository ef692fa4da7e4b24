// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "checkpoint/lock.hpp"
#include "comm/watchdog.hpp"

namespace shard8::train {

/// The lock of a folder, held while the object lives. A thread of its own counts the heartbeat, so that other machines
/// see that this process lives. One rank has it.
class HeldFolder {
 public:
  /// `holder` names this process in the lock: an id that differs from run to run. Errors are those of checkpoint::Lock.
  HeldFolder(const std::string& folder, const std::string& holder, const checkpoint::LockOptions& options);

  /// Why the lock is lost; empty while it is held. Any thread may call it.
  std::string lost();

 private:
  std::optional<std::string> count();

  checkpoint::Lock lock_;
  std::mutex mutex_;       // of lock_
  comm::Watchdog counts_;  // last: it uses the others
};

/// Calls `make`, which makes the folder, and holds it. Another run that looks at folders may remove an empty one
/// between the two: then it is made again.
std::unique_ptr<HeldFolder> make_and_hold(const std::string& folder, const std::string& holder,
                                          const checkpoint::LockOptions& options, const std::function<void()>& make);

}  // namespace shard8::train

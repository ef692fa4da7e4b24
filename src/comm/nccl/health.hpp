// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace shard8::comm::nccl {

class NcclCommunicator;

/// What a watchdog asks besides the calls on the lanes: errors that NCCL meets in the background.
class Health {
 public:
  void add(const NcclCommunicator& communicator);
  void remove(const NcclCommunicator& communicator);

  /// What is wrong, if anything is. For another thread.
  std::optional<std::string> problem();

 private:
  std::mutex mutex_;
  std::vector<const NcclCommunicator*> communicators_;
};

}  // namespace shard8::comm::nccl

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace shard8::comm::nccl {

class NcclCommunicator;

/// The communicators whose errors in the background a watchdog asks for.
class Health {
 public:
  void add(const NcclCommunicator& communicator);
  void remove(const NcclCommunicator& communicator);

  /// Describes the first error, if there is one. For another thread.
  std::optional<std::string> problem();

 private:
  std::mutex mutex_;
  std::vector<const NcclCommunicator*> communicators_;
};

}  // namespace shard8::comm::nccl

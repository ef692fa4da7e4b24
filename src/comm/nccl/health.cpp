// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/health.hpp"

#include "comm/nccl/communicator.hpp"

namespace shard8::comm::nccl {

void Health::add(const NcclCommunicator& communicator) {
  const std::lock_guard lock(mutex_);
  communicators_.push_back(&communicator);
}

void Health::remove(const NcclCommunicator& communicator) {
  const std::lock_guard lock(mutex_);
  std::erase(communicators_, &communicator);
}

std::optional<std::string> Health::problem() {
  const std::lock_guard lock(mutex_);
  for (const NcclCommunicator* communicator : communicators_) {
    if (auto failure = communicator->failure()) return failure;
  }
  return std::nullopt;
}

}  // namespace shard8::comm::nccl

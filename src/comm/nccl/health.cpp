// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/health.hpp"

#include <fmt/format.h>

#include <utility>

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

Health::HostCall::HostCall(Health& health, std::string what) : health_(health) {
  const std::lock_guard lock(health_.mutex_);
  health_.host_call_ = std::move(what);
  health_.host_call_began_ = Clock::now();
}

Health::HostCall::~HostCall() {
  const std::lock_guard lock(health_.mutex_);
  health_.host_call_.clear();
}

std::optional<std::string> Health::problem(Clock::time_point now, Clock::duration limit) {
  const std::lock_guard lock(mutex_);
  if (!host_call_.empty() && now - host_call_began_ >= limit) {
    return fmt::format("{} has not returned after {:.0f} s; another rank does not take part in it", host_call_,
                       std::chrono::duration<double>(now - host_call_began_).count());
  }
  for (const NcclCommunicator* communicator : communicators_) {
    if (auto failure = communicator->failure()) return failure;
  }
  return std::nullopt;
}

}  // namespace shard8::comm::nccl

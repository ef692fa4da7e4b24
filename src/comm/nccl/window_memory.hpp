// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <cstddef>
#include <memory>

#include "comm/device.hpp"
#include "comm/nccl/communicator.hpp"

namespace shard8::comm::nccl {

/// Device memory in a symmetric window of a communicator of NCCL, if NCCL can make one, else plain memory.
class WindowMemory final : public DeviceMemory {
 public:
  /// Collective.
  WindowMemory(const Communicator& group, const GroupInfo& info, std::shared_ptr<NcclCommunicator> communicator,
               std::size_t bytes);
  ~WindowMemory() override;

  std::byte* data() const override { return memory_; }
  std::size_t bytes() const override { return bytes_; }
  /// False when NCCL made no window here. Then gathers take the way of plain memory.
  bool symmetric() const { return window_ != nullptr; }

 private:
  Communicator group_;  // keeps the group alive as long as this
  std::shared_ptr<NcclCommunicator> communicator_;
  std::size_t bytes_;
  std::byte* memory_ = nullptr;
  ncclWindow_t window_ = nullptr;
};

/// Device memory of cudaMalloc.
class PlainMemory final : public DeviceMemory {
 public:
  explicit PlainMemory(std::size_t bytes);
  ~PlainMemory() override;

  std::byte* data() const override { return memory_; }
  std::size_t bytes() const override { return bytes_; }

 private:
  std::size_t bytes_;
  std::byte* memory_ = nullptr;
};

}  // namespace shard8::comm::nccl

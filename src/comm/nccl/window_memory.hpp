// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <cstddef>
#include <memory>

#include "comm/device.hpp"
#include "comm/nccl/communicator.hpp"

namespace shard8::comm::nccl {

/// Memory in a symmetric window of a communicator of NCCL, if it can have one.
class WindowMemory final : public DeviceMemory {
 public:
  /// Collective.
  WindowMemory(const Communicator& group, const GroupInfo& info, std::shared_ptr<NcclCommunicator> communicator,
               std::size_t bytes);
  ~WindowMemory() override;

  std::byte* data() const override { return memory_; }
  std::size_t bytes() const override { return bytes_; }
  /// False: the library has none here, and gathers are as in any memory.
  bool symmetric() const { return window_ != nullptr; }

 private:
  Communicator group_;  // lives as long
  std::shared_ptr<NcclCommunicator> communicator_;
  std::size_t bytes_;
  std::byte* memory_ = nullptr;
  ncclWindow_t window_ = nullptr;
};

/// Memory of the device that is nothing special.
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

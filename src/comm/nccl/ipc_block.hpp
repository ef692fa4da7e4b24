// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace shard8::comm::nccl {

/// Of the running system: two processes that have it alike are on one node.
std::string node_identity();

/// Device memory of every rank of a group that all of them can write to (CUDA IPC): for ranks on one
/// node whose devices reach each other.
class IpcBlock {
 public:
  /// Collective; as many bytes on every rank, cleared on `stream`. Throws AgreedError(environment) on every
  /// rank when it cannot be on one, with the reason.
  IpcBlock(const Communicator& group, std::size_t bytes, cudaStream_t stream);
  /// Collective, after all ranks' writes were waited for. Left to the end of the process by an exception.
  ~IpcBlock();
  IpcBlock(const IpcBlock&) = delete;
  IpcBlock& operator=(const IpcBlock&) = delete;

  std::byte* own() const { return own_; }
  /// Where this rank writes to a rank's memory.
  std::byte* of(int rank) const { return base_[static_cast<std::size_t>(rank)]; }
  std::size_t bytes() const { return bytes_; }

 private:
  void allocate(cudaIpcMemHandle_t& handle, cudaStream_t stream);
  void open(const std::vector<std::string>& handles);
  void close() noexcept;

  Communicator group_;
  std::size_t bytes_;
  std::byte* own_ = nullptr;
  std::vector<std::byte*> base_;
};

}  // namespace shard8::comm::nccl

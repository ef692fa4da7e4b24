// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace shard8::comm::nccl {

/// Identifies the running system: two processes with the same identity are on one node.
std::string node_identity();

/// Device memory of every rank of a group, which all ranks of the group can write to (CUDA IPC). The ranks must be on
/// one node, with devices that reach each other.
class IpcBlock {
 public:
  /// Collective, with the same bytes on every rank, which are cleared on `stream`. Throws AgreedError(environment) with
  /// the reason on every rank when one rank cannot have the memory.
  IpcBlock(const Communicator& group, std::size_t bytes, cudaStream_t stream);
  /// Collective. All ranks' writes must be complete. During an exception it frees nothing: the process ends.
  ~IpcBlock();
  IpcBlock(const IpcBlock&) = delete;
  IpcBlock& operator=(const IpcBlock&) = delete;

  std::byte* own() const { return own_; }
  /// The address at which this rank writes to the memory of `rank`.
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

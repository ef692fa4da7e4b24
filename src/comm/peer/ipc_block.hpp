// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/peer/addresses.hpp"

namespace shard8::comm::peer {

/// Device memory of every rank of a group, which all ranks of the group can read and write (CUDA IPC). The ranks must
/// be on one node, with devices that reach each other.
class IpcBlock final : public PeerAddresses {
 public:
  /// Collective, with the same bytes on every rank, which are cleared on `stream`. Throws AgreedError(environment) with
  /// the reason on every rank when one rank cannot have the memory.
  IpcBlock(const Communicator& group, std::size_t bytes, cudaStream_t stream);
  /// Collective. All ranks' writes must be complete. During an exception it frees nothing: the process ends.
  ~IpcBlock() override;

 private:
  void allocate(cudaIpcMemHandle_t& handle, cudaStream_t stream);
  void open(const std::vector<std::string>& handles);
  void close() noexcept;

  Communicator group_;
  std::byte* own_ = nullptr;
};

}  // namespace shard8::comm::peer

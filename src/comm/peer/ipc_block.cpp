// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/peer/ipc_block.hpp"

#include <cstring>
#include <exception>
#include <string>

#include "base/error.hpp"
#include "comm/agree.hpp"
#include "comm/node.hpp"
#include "tensor/cuda/check.hpp"

namespace shard8::comm::peer {
namespace {

// CUDA cuts smaller allocations out of larger ones, which would be mapped as a whole.
constexpr std::size_t kPage = std::size_t{2} << 20;

}  // namespace

IpcBlock::IpcBlock(const Communicator& group, std::size_t bytes, cudaStream_t stream)
    : PeerAddresses(group.rank(), std::vector<std::byte*>(static_cast<std::size_t>(group.size()), nullptr), bytes),
      group_(group.same()) {
  try {
    cudaIpcMemHandle_t handle{};
    agree(group_, [&] { allocate(handle, stream); });
    const auto nodes = group_.all_gather(device_node_identity());
    agree(group_, [&] {
      for (const std::string& node : nodes) {
        if (node_identity().empty() || node != nodes.front())
          base::fail(base::ExitCode::environment, "the ranks of group '{}' are on several nodes", group_.name());
      }
    });
    const auto handles = group_.all_gather(std::string_view(reinterpret_cast<const char*>(&handle), sizeof handle));
    agree(group_, [&] { open(handles); });
  } catch (const AgreedError&) {  // thrown by all ranks
    close();
    group_.barrier();
    if (own_ != nullptr) cudaFree(own_);
    throw;
  }
}

IpcBlock::~IpcBlock() {
  if (std::uncaught_exceptions() > 0) return;  // others may still write
  close();
  group_.barrier();  // nobody may free what another has open
  cudaFree(own_);
}

void IpcBlock::allocate(cudaIpcMemHandle_t& handle, cudaStream_t stream) {
  void* memory = nullptr;
  SHARD8_CUDA_CHECK(cudaMalloc(&memory, (bytes_ + kPage - 1) / kPage * kPage));
  own_ = static_cast<std::byte*>(memory);
  SHARD8_CUDA_CHECK(cudaMemsetAsync(own_, 0, bytes_, stream));
  SHARD8_CUDA_CHECK(cudaStreamSynchronize(stream));
  SHARD8_CUDA_CHECK(cudaIpcGetMemHandle(&handle, own_));
}

void IpcBlock::open(const std::vector<std::string>& handles) {
  for (std::size_t rank = 0; rank < handles.size(); ++rank) {
    if (static_cast<int>(rank) == group_.rank()) {
      base_[rank] = own_;
      continue;
    }
    cudaIpcMemHandle_t handle{};
    std::memcpy(&handle, handles[rank].data(), sizeof handle);
    void* base = nullptr;
    const cudaError_t status = cudaIpcOpenMemHandle(&base, handle, cudaIpcMemLazyEnablePeerAccess);
    if (status != cudaSuccess) {
      static_cast<void>(cudaGetLastError());  // seen; later calls must not find it
      base::fail(base::ExitCode::environment,
                 "cannot map memory of rank {} of group '{}' (cudaIpcOpenMemHandle gave {}: {}); devices of one node "
                 "with peer access are needed, in one IPC namespace",
                 rank, group_.name(), cudaGetErrorName(status), cudaGetErrorString(status));
    }
    base_[rank] = static_cast<std::byte*>(base);
  }
}

void IpcBlock::close() noexcept {
  for (std::byte*& base : base_) {
    if (base != nullptr && base != own_) cudaIpcCloseMemHandle(base);
    base = nullptr;
  }
}

}  // namespace shard8::comm::peer

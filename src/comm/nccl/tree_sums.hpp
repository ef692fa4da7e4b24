// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/device.hpp"
#include "comm/nccl/communicator.hpp"
#include "tensor/tensor.hpp"

namespace shard8::comm::nccl {

/// Memory with which all-reduces sum in the order SumOrder::tree, with the bits of hosts: in fp32, rounded once. A call
/// takes turns. In a turn every rank receives its share of some elements from all other ranks through NCCL, a kernel
/// sums the share, and every rank sends the sum to all others. So a rank sends as many bytes as in NCCL's all-reduce
/// round a ring.
class TreeSums final : public DeviceMemory {
 public:
  /// Takes `bytes` of device memory, at least tensor::kAlignment for each other rank; Error(failed) for less. The group
  /// has at most peer::kMostRanks ranks. Calls run on `stream`.
  TreeSums(std::shared_ptr<const GroupInfo> info, std::shared_ptr<NcclCommunicator> communicator, std::size_t bytes,
           cudaStream_t stream);
  ~TreeSums() override;
  TreeSums(const TreeSums&) = delete;
  TreeSums& operator=(const TreeSums&) = delete;

  std::byte* data() const override { return memory_; }
  std::size_t bytes() const override { return bytes_; }

  /// Sums the items in place. They are fp32 or bf16, and lie at any address of their dtype.
  void all_reduce(std::span<const tensor::Tensor> items);

 private:
  /// Elements that a turn sums.
  struct Piece {
    std::byte* data;
    tensor::DType dtype;
    std::int64_t count, share;  ///< elements, and those that one rank sums; the last ranks sum fewer
    std::size_t offset;         ///< in each slot
  };
  struct Share {
    std::byte* data;
    std::int64_t count;
    std::size_t bytes;
  };
  static Share share_of(const Piece& piece, int rank);
  std::byte* slot_of(int rank) const;
  void turn();
  template <class Messages>
  void exchange(const Messages& messages) const;
  void send(const Share& share, int to) const;
  void receive(std::byte* data, std::size_t bytes, int from) const;

  std::shared_ptr<const GroupInfo> info_;
  std::shared_ptr<NcclCommunicator> communicator_;
  cudaStream_t stream_;
  std::size_t bytes_, slot_bytes_;  ///< of the memory, and of the slot of each other rank
  std::byte* memory_ = nullptr;
  std::vector<Piece> pieces_;  ///< of this turn
  std::size_t used_ = 0;       ///< bytes of a slot that this turn uses
};

}  // namespace shard8::comm::nccl

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "comm/device.hpp"
#include "comm/nccl/communicator.hpp"
#include "comm/nccl/lane.hpp"
#include "comm/parts.hpp"
#include "comm/peer/peer_memory.hpp"
#include "comm/peer/push_sums.hpp"
#include "tensor/tensor.hpp"

namespace shard8::comm::nccl {

class NcclGroup;

/// An all-gather by parts: on the gather lane, pushed by copy engines, or as one ordinary collective. NcclGroup owns it
/// and uses it again.
class DeviceGather final : public GatherExchange {
 public:
  /// Begins an all-gather that is the ordinary collective `call`, which may be null, as of
  /// DeviceGroup::all_gather_in_place.
  void begin_whole(const GroupInfo& info, DeviceCall* call, std::span<const tensor::Tensor> whole,
                   std::span<const tensor::Tensor> own);
  /// Begins an all-gather that was started as `call` on `lane`. The wholes of the all-gather lie in `memory`, to which
  /// peers push. `own_too`: see Communicator::all_gather_parts.
  void begin_parts(const GroupInfo& info, Lane& lane, Call& call, peer::PeerMemory& memory,
                   std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own, bool own_too);
  bool in_use() const { return in_use_; }

  void await(int rank) override;
  tensor::Tensor part(std::size_t i, int rank) const override;
  void finish() override;
  bool abandon() noexcept override { return true; }
  void give_back() noexcept override { in_use_ = false; }

 private:
  void begin(const GroupInfo& info, std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own);

  std::vector<tensor::Tensor> whole_, own_;
  int rank_ = 0, size_ = 1;
  Call* parts_ = nullptr;       ///< the call whose parts can be waited for
  DeviceCall* call_ = nullptr;  ///< until it was waited for
  bool in_use_ = false;
};

/// A reduce-scatter by parts: on the reduce lane, pushed by copy engines, or as one ordinary collective at its end.
/// NcclGroup owns it and uses it again.
class DeviceScatter final : public ScatterExchange {
 public:
  /// `memory` serves the item, or is null: then finish() does the ordinary collective.
  void begin(NcclGroup& group, const std::shared_ptr<const GroupInfo>& info, Lane& lane,
             std::shared_ptr<peer::PushSums> memory, const Communicator::ReduceScatterItem& item,
             std::string_view label);
  bool in_use() const { return in_use_; }

  tensor::Tensor whole() override { return item_.whole; }
  void give(int rank) override;
  void give(int rank, std::int64_t first, std::int64_t rows) override;
  void finish() override;
  std::optional<tensor::PartialSums> finish_partial_sums() override;
  bool abandon() noexcept override { return true; }
  void give_back() noexcept override {
    memory_.reset();
    in_use_ = false;
  }

 private:
  void require_all_given() const;

  NcclGroup* group_ = nullptr;
  std::shared_ptr<const GroupInfo> info_;
  Lane* lane_ = nullptr;
  std::shared_ptr<peer::PushSums> memory_;
  Communicator::ReduceScatterItem item_;
  std::string_view label_;
  Call* call_ = nullptr;             ///< from the first give() on, if there is memory
  std::vector<std::int64_t> given_;  ///< of each rank: how many of its rows were given; -1: it was not given at all
  int given_count_ = 0;              ///< ranks all of whose rows were given
  bool in_use_ = false;
};

/// An exchange of `all` that is not in use; a new one if all are.
template <class Exchange>
Exchange& unused(std::vector<std::unique_ptr<Exchange>>& all) {
  for (const auto& one : all) {
    if (!one->in_use()) return *one;
  }
  return *all.emplace_back(std::make_unique<Exchange>());
}

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

  /// Sums the items in place. The items are fp32 or bf16, and lie at any address of their dtype.
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

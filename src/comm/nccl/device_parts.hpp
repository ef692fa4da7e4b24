// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "comm/nccl/lane.hpp"
#include "comm/parts.hpp"
#include "comm/peer/peer_memory.hpp"
#include "comm/peer/push_sums.hpp"

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
  /// Begins an all-gather that was started as `call` on `lane`. Its wholes lie in `memory`, to which peers push.
  /// `own_too`: see Communicator::all_gather_parts.
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

}  // namespace shard8::comm::nccl

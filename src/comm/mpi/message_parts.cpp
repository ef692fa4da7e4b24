// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Exchanges by messages to and from each peer.

#include <utility>

#include "comm/mpi/host_parts.hpp"
#include "comm/rows.hpp"

namespace shard8::comm {
namespace {

using Item = Communicator::ReduceScatterItem;
using tensor::Tensor;

class MessageGather final : public GatherIntoWhole {
 public:
  MessageGather(std::shared_ptr<Group> group, std::span<const Tensor> whole, std::span<const Tensor> own,
                std::string_view label)
      : GatherIntoWhole(std::move(group), whole, own, label), ends_(&group_->memory) {
    ends_.push_back(0);
    for (int k = 1; k < group_->size; ++k) {
      receive_rows(from(k), from(k));
      ends_.push_back(requests_.size());
    }
    for (int k = 1; k < group_->size; ++k) {
      for (const Tensor& t : own_) send(t.data, t.bytes(), to(k));
    }
    copy_own_rows();
  }

  void give_back() noexcept override { PendingCollective::give_back<MessageGather>(this); }

 private:
  std::optional<int> missing(int peer) override {
    if (done()) return std::nullopt;
    const auto k = static_cast<std::size_t>(distance_of(peer));
    for (std::size_t r = ends_[k - 1]; r < ends_[k]; ++r) {
      int complete = 0;
      check_mpi(MPI_Test(&requests_[r], &complete, MPI_STATUS_IGNORE), "MPI_Test", label_, group_.get());
      if (complete == 0) return peer;
    }
    return std::nullopt;
  }

  std::pmr::vector<std::size_t> ends_;  ///< [k]: behind the receives from from(k) in requests_; [0] is 0
};

class MessageScatter final : public HostScatter {
 public:
  MessageScatter(std::shared_ptr<Group> group, const Item& item, std::string_view label)
      : HostScatter(std::move(group), item, label),
        received_(group_->scratch.take(static_cast<std::size_t>(group_->size - 1) * item.out.bytes())) {
    for (int k = 1; k < group_->size; ++k) receive(place_of(from(k)), item_.out.bytes(), from(k));
  }

  Tensor whole() override { return item_.whole; }
  void give_back() noexcept override { PendingCollective::give_back<MessageScatter>(this); }

 private:
  std::byte* place_of(int peer) const {
    return received_.data() + static_cast<std::size_t>(peer < group_->rank ? peer : peer - 1) * item_.out.bytes();
  }
  void hand_over(int peer) override { send(rows_of(item_, peer), item_.out.bytes(), peer); }
  const std::byte* summands(int rank) const override {
    return rank == group_->rank ? rows_of(item_, rank) : place_of(rank);
  }

  ScratchPool::Block received_;  ///< other ranks' summands, in rank order
};

}  // namespace

GatherExchangePtr gather_by_messages(const std::shared_ptr<Group>& group, std::span<const Tensor> whole,
                                     std::span<const Tensor> own, std::string_view label) {
  return GatherExchangePtr(make_exchange<MessageGather>(group, whole, own, label));
}

ScatterExchangePtr scatter_by_messages(const std::shared_ptr<Group>& group, const Item& item, std::string_view label) {
  return ScatterExchangePtr(make_exchange<MessageScatter>(group, item, label));
}

}  // namespace shard8::comm

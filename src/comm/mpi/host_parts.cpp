// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/host_parts.hpp"

#include <utility>

#include "base/error.hpp"
#include "comm/describe.hpp"
#include "comm/mpi/all_reduce.hpp"

// All-gathers and reduce-scatters on hosts, used part by part: what all share, and those by messages to each peer.

namespace shard8::comm {

void HostParts::require_rank(int rank, std::string_view call) const {
  SHARD8_REQUIRE(rank >= 0 && rank < group_->size, "{} of rank {} for {} in group '{}': its ranks are 0 to {}", call,
                 rank, label_, group_->name, group_->size - 1);
}

void HostGather::await(int rank) {
  require_rank(rank, "await");
  if (rank != group_->rank) block([&] { return missing(rank); });
}

tensor::Tensor HostGather::part(std::size_t i, int rank) const {
  require_rank(rank, "part");
  tensor::Tensor t = own_.at(i);
  if (rank != group_->rank) t.data = rows(i, rank);
  return t;
}

void HostGather::finish() {
  for (int k = 1; k < group_->size; ++k) await(from(k));
  block([&] { return advance() ? std::nullopt : std::optional(peer()); });  // this rank's messages
  record(exposed_);
}

void HostScatter::give(int rank) {
  require_rank(rank, "give");
  char& given = given_[static_cast<std::size_t>(rank)];
  SHARD8_REQUIRE(given == 0, "reduce_scatter for {} in group '{}': the rows of rank {} are given twice", label_,
                 group_->name, rank);
  if (given_count_ == 0) begin_now();
  if (rank != group_->rank) hand_over(rank);
  given = 1;
  ++given_count_;
}

void HostScatter::finish() {
  SHARD8_REQUIRE(all_given(), "reduce_scatter for {} in group '{}': only {} of {} ranks' rows are given", label_,
                 group_->name, given_count_, group_->size);
  const auto exposed = exposed_;
  const auto entered = Clock::now();
  finishing_ = true;
  block([&] { return advance() ? std::nullopt : std::optional(absent()); });
  record(exposed + (Clock::now() - entered));
}

bool HostScatter::abandon() noexcept {
  finishing_ = true;
  return PendingCollective::abandon();
}

bool HostScatter::next_stage() {
  if (!all_given()) return true;  // abandoned
  for (int rank = 0; rank < group_->size; ++rank) sources_.push_back(partial_sums(rank));
  if (!item_.addend.empty()) sources_.push_back(item_.addend.data);
  sum_in_order(item_.out.data, sources_, item_.out.count(), item_.out.dtype);
  return true;
}

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
  const std::byte* partial_sums(int rank) const override {
    return rank == group_->rank ? rows_of(item_, rank) : place_of(rank);
  }

  ScratchPool::Block received_;  ///< other ranks' partial sums, in rank order
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

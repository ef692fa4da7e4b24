// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "comm/mpi/pending.hpp"
#include "comm/parts.hpp"

namespace shard8::comm {

class SharedWindow;

/// A collective of host memory whose parts are used one by one.
class HostParts : public PendingCollective {
 protected:
  HostParts(std::shared_ptr<Group> group, profile::Collective op, std::span<const tensor::Tensor> tensors,
            std::string_view label, Begin begin)
      : PendingCollective(std::move(group), op, tensors, label, begin) {}

  /// Blocks until missing() returns nothing. Until then missing() returns the rank of the group that is waited for, or
  /// HostWaits::kNoPeer. Other collectives of the process advance meanwhile.
  template <class Missing>
  void block(const Missing& missing) {
    std::optional<int> peer = missing();
    if (!peer) return;
    const auto entered = Clock::now();
    HostWaits::Wait wait(group_->engine->waits, subject(), entered);
    Pause pause(group_->waiting);
    for (; peer; peer = missing()) {
      wait.set_peer(*peer, chunk());
      group_->engine->advance();
      group_->poll();
      pause();
    }
    exposed_ += Clock::now() - entered;
  }

  void require_rank(int rank, std::string_view call) const;
  /// The rank whose rows, or the sum for which, the peer that is waited for passes on. HostWaits::kNoPeer: a peer
  /// passes on nothing.
  virtual int chunk() const { return HostWaits::kNoPeer; }

  /// The k-th peer to send to and to receive from, k = 1 … size − 1: see ScatterParts::destination and
  /// GatherParts::arrival.
  int to(int k) const { return (group_->rank + k) % group_->size; }
  int from(int k) const { return (group_->rank - k + group_->size) % group_->size; }

  Clock::duration exposed_{};  ///< time for which this rank has waited
};

/// An all-gather. It is complete when the rows of all ranks are there.
class HostGather : public HostParts, public GatherExchange {
 public:
  void await(int rank) override;
  tensor::Tensor part(std::size_t i, int rank) const override;
  void finish() override;
  bool abandon() noexcept override { return PendingCollective::abandon(); }

 protected:
  HostGather(std::shared_ptr<Group> group, std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own,
             std::string_view label)
      : HostParts(std::move(group), profile::Collective::all_gather, whole, label, Begin::now),
        own_(own.begin(), own.end(), &group_->memory) {}

  /// Which rank is waited for, as for block(), before the rows of a peer can be read. Nothing if they can be.
  virtual std::optional<int> missing(int peer) = 0;
  /// Where the rows of tensor i of a peer are read.
  virtual std::byte* rows(std::size_t i, int peer) const = 0;
  bool next_stage() override { return true; }

  std::pmr::vector<tensor::Tensor> own_;
};

/// An all-gather by messages, which writes the rows of all ranks into `whole`.
class GatherIntoWhole : public HostGather {
 protected:
  GatherIntoWhole(std::shared_ptr<Group> group, std::span<const tensor::Tensor> whole,
                  std::span<const tensor::Tensor> own, std::string_view label)
      : HostGather(std::move(group), whole, own, label), whole_(whole.begin(), whole.end(), &group_->memory) {}

  std::byte* rows(std::size_t i, int rank) const override {
    return own_[i].empty() ? nullptr : whole_[i].data + static_cast<std::size_t>(rank) * own_[i].bytes();
  }
  /// Receives the rows that rank `made`, from rank `source`.
  void receive_rows(int made, int source) {
    for (std::size_t i = 0; i < own_.size(); ++i) receive(rows(i, made), own_[i].bytes(), source);
  }
  void copy_own_rows() {
    for (std::size_t i = 0; i < own_.size(); ++i) group_->copy(rows(i, group_->rank), own_[i]);
  }
  /// k of from(k) = rank; 0 for this rank.
  int distance_of(int rank) const { return from(rank); }

 private:
  std::pmr::vector<tensor::Tensor> whole_;
};

/// A reduce-scatter. It begins when the first rows are given. It is complete when finish() was called, the partial sums
/// of all ranks are there and are summed.
class HostScatter : public HostParts, public ScatterExchange {
 public:
  void give(int rank) override;
  void finish() override;
  bool abandon() noexcept override;

 protected:
  HostScatter(std::shared_ptr<Group> group, const Communicator::ReduceScatterItem& item, std::string_view label)
      : HostParts(std::move(group), profile::Collective::reduce_scatter, {&item.whole, 1}, label, Begin::later),
        item_(item),
        sources_(&group_->memory),
        given_(static_cast<std::size_t>(group_->size), 0, &group_->memory) {}

  /// Lets a peer have its rows.
  virtual void hand_over(int peer) = 0;
  /// The partial sums of `rank` for this rank, out.count() elements.
  virtual const std::byte* partial_sums(int rank) const = 0;
  /// The first peer whose partial sums are not there, if it is known.
  virtual int absent() const { return peer(); }
  bool ready() override { return finishing_; }
  bool next_stage() override;
  bool is_given(int rank) const { return given_[static_cast<std::size_t>(rank)] != 0; }
  bool all_given() const { return given_count_ == group_->size; }
  /// finish() was called, or abandon().
  bool finishing() const { return finishing_; }

  Communicator::ReduceScatterItem item_;
  std::pmr::vector<const std::byte*> sources_;  ///< of a sum, in its order

 private:
  std::pmr::vector<char> given_;  ///< of each rank: whether its rows were given
  int given_count_ = 0;
  bool finishing_ = false;
};

/// An exchange in its group's memory: P(group, arguments...).
template <class P, class... Arguments>
P* make_exchange(const std::shared_ptr<Group>& group, const Arguments&... arguments) {
  return std::pmr::polymorphic_allocator<>(&group->memory).new_object<P>(group, arguments...);
}

/// By messages to and from each peer.
GatherExchangePtr gather_by_messages(const std::shared_ptr<Group>& group, std::span<const tensor::Tensor> whole,
                                     std::span<const tensor::Tensor> own, std::string_view label);
ScatterExchangePtr scatter_by_messages(const std::shared_ptr<Group>& group, const Communicator::ReduceScatterItem& item,
                                       std::string_view label);
/// By messages between neighbours.
GatherExchangePtr gather_in_ring(const std::shared_ptr<Group>& group, std::span<const tensor::Tensor> whole,
                                 std::span<const tensor::Tensor> own, std::string_view label);
ScatterExchangePtr scatter_in_ring(const std::shared_ptr<Group>& group, const Communicator::ReduceScatterItem& item,
                                   std::string_view label);
/// In memory that the ranks share.
GatherExchangePtr gather_in_window(const std::shared_ptr<Group>& group, const std::shared_ptr<SharedWindow>& window,
                                   std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own,
                                   std::string_view label);
ScatterExchangePtr scatter_in_window(const std::shared_ptr<Group>& group, const std::shared_ptr<SharedWindow>& window,
                                     const Communicator::ReduceScatterItem& item, std::string_view label);

}  // namespace shard8::comm

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "comm/communicator.hpp"
#include "comm/mpi/pending.hpp"
#include "comm/parts.hpp"
#include "comm/peer/handshake.hpp"
#include "tensor/dtype.hpp"

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

/// An all-gather, which is complete when the rows of all ranks are there.
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

/// A reduce-scatter, which begins when the first rows are given. The exchange is complete when finish() was called and
/// the partial sums of all ranks have come and are summed.
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

/// Exchanges by messages to and from each peer.
GatherExchangePtr gather_by_messages(const std::shared_ptr<Group>& group, std::span<const tensor::Tensor> whole,
                                     std::span<const tensor::Tensor> own, std::string_view label);
ScatterExchangePtr scatter_by_messages(const std::shared_ptr<Group>& group, const Communicator::ReduceScatterItem& item,
                                       std::string_view label);
/// Exchanges by messages between neighbours of a ring.
GatherExchangePtr gather_in_ring(const std::shared_ptr<Group>& group, std::span<const tensor::Tensor> whole,
                                 std::span<const tensor::Tensor> own, std::string_view label);
ScatterExchangePtr scatter_in_ring(const std::shared_ptr<Group>& group, const Communicator::ReduceScatterItem& item,
                                   std::string_view label);
/// Exchanges in memory that the ranks share.
GatherExchangePtr gather_in_window(const std::shared_ptr<Group>& group, const std::shared_ptr<SharedWindow>& window,
                                   std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own,
                                   std::string_view label);
ScatterExchangePtr scatter_in_window(const std::shared_ptr<Group>& group, const std::shared_ptr<SharedWindow>& window,
                                     const Communicator::ReduceScatterItem& item, std::string_view label);

/// Whether a number that grows, and begins again at 0 after 2^32 − 1, has come to `wanted`. The two are less than 2^31
/// apart.
constexpr bool reached(std::uint32_t number, std::uint32_t wanted) {
  return static_cast<std::int32_t>(number - wanted) >= 0;
}

/// Memory of the ranks of a group on one node: an MPI shared-memory window. Each rank has two slots for its rows of
/// gathers, used in turn, and one slot for its partial sums. Exchanges have numbers, which grow from 1. A rank tells
/// its peers by numbers in its own memory, which the peers read:
///
/// - gathered: the last gather whose rows are in this rank's slot.
/// - read: the last gather whose slots this rank does not read any more. A rank writes the rows of gather n when all
///   peers have told it that they have read n − 2.
/// - given[r]: the last scatter whose partial sums for rank r are in this rank's slot.
/// - summed: the last scatter whose partial sums this rank has read. A rank writes the partial sums of scatter n when
///   all peers have told it that they have summed n − 1.
class SharedWindow final : public PartsMemory, public peer::PeerAddresses {
 public:
  /// Collective, with the same bytes on every rank: see Communicator::parts_memory. Throws AgreedError(environment)
  /// with the reason where the group cannot have the memory.
  SharedWindow(const Communicator& group, MPI_Comm comm, std::size_t gather_bytes, std::size_t scatter_bytes);
  ~SharedWindow() override;

  static std::size_t bytes_of(std::size_t gather_bytes, std::size_t scatter_bytes, int ranks);
  std::size_t bytes() const override { return PeerAddresses::bytes(); }
  bool gathers() const { return gather_bytes_ > 0; }
  bool scatters() const { return scatter_bytes_ > 0; }

  /// The number of the next gather, whose own rows take `bytes` bytes. Throws Error(failed) when they do not fit or two
  /// gathers are under way.
  std::uint32_t begin_gather(std::size_t bytes, std::string_view label);
  /// The first peer that has not read what this rank's slot of the gather held before, if one has not.
  std::optional<int> before_write(std::uint32_t gather) const { return awaited(kRead, gather - 2); }
  /// Whether this rank has written its slots of all gathers before this one: they are written in their order.
  bool is_next(std::uint32_t gather) const { return written_ + 1 == gather; }
  /// The slot of `rank` for the rows of the gather.
  std::byte* rows(int rank, std::uint32_t gather) const;
  /// This rank has written its slot.
  void publish(std::uint32_t gather);
  /// Whether `rank` has written its slot.
  bool published(int rank, std::uint32_t gather) const { return reached(load(rank, kGathered), gather); }
  /// This rank reads no slot of the gather any more.
  void finish_gather(std::uint32_t gather);

  /// The number of the next scatter, whose whole takes `bytes` bytes. Throws Error(failed) when it does not fit or one
  /// is under way.
  std::uint32_t begin_scatter(std::size_t bytes, std::string_view label);
  /// The first peer that has not read this rank's partial sums of the scatter before, if one has not.
  std::optional<int> before_partial_sums(std::uint32_t scatter) const { return awaited(kSummed, scatter - 1); }
  /// The slot of `rank` for its partial sums.
  std::byte* partial_sums(int rank) const;
  /// This rank has written its partial sums for rank `to`.
  void give(int to, std::uint32_t scatter) { store(kGiven + to, scatter); }
  /// Whether `rank` has written its partial sums for this rank.
  bool given(int from, std::uint32_t scatter) const { return reached(load(from, kGiven + rank()), scatter); }
  /// This rank reads no partial sums of the scatter any more.
  void finish_scatter(std::uint32_t scatter) { store(kSummed, scatter); }

  /// For tests: from now on a slot is overwritten before it is used again, so that whoever still reads it reads
  /// rubbish.
  void poison() { poison_ = true; }
  void spoil(std::byte* slot, std::size_t bytes) const;

 private:
  /// The words of a rank, each in a cache line of its own.
  enum Word { kGathered, kRead, kSummed, kGiven };
  static constexpr std::size_t kLine = 64;
  static std::size_t words_bytes(int ranks);
  std::optional<int> awaited(Word word, std::uint32_t number) const;
  std::uint32_t load(int rank, int word) const;
  void store(int word, std::uint32_t number);
  /// Bytes that MPI allocates, which it need not align.
  std::size_t allocated_bytes() const { return bytes() + tensor::kAlignment; }
  int allocate(MPI_Comm comm);
  void require_window(int status) const;
  void clear() const;
  void query();

  Communicator group_;
  std::size_t gather_bytes_, scatter_bytes_;
  MPI_Win window_ = MPI_WIN_NULL;
  std::byte* allocated_ = nullptr;
  std::uint32_t begun_ = 0, written_ = 0, read_ = 0;  ///< numbers of this rank's gathers
  std::array<bool, 2> open_{};                        ///< of each slot: its gather is under way
  std::uint32_t scatter_ = 0;                         ///< number of the last scatter
  bool poison_ = false;
};

}  // namespace shard8::comm

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Exchanges by messages round a ring: each rank receives from one neighbour and sends to the other one.

#include <utility>

#include "comm/describe.hpp"
#include "comm/mpi/host_parts.hpp"
#include "comm/mpi/sums.hpp"

namespace shard8::comm {
namespace {

using Item = Communicator::ReduceScatterItem;
using tensor::DType;
using tensor::Tensor;

/// Rank r sends rows to rank r + 1. Those of rank r − k arrive k-th, and are passed on unless rank r + 1 made them.
class RingGather final : public GatherIntoWhole {
 public:
  RingGather(std::shared_ptr<Group> group, std::span<const Tensor> whole, std::span<const Tensor> own,
             std::string_view label)
      : GatherIntoWhole(std::move(group), whole, own, label), sends_(&group_->memory) {
    for (const Tensor& t : own_) send_aside(sends_, t.data, t.bytes(), to(1));
    receive_next();
    copy_own_rows();
  }

  bool staged() const override { return arrived_ < group_->size - 1; }
  void give_back() noexcept override { PendingCollective::give_back<RingGather>(this); }

 private:
  void receive_next() { receive_rows(from(arrived_ + 1), from(1)); }

  std::optional<int> missing(int rank) override {
    advance();
    return arrived_ >= distance_of(rank) ? std::nullopt : std::optional(from(1));
  }
  int chunk() const override { return staged() ? from(arrived_ + 1) : HostWaits::kNoPeer; }

  bool next_stage() override {
    if (!staged()) return true;
    ++arrived_;
    if (!staged()) return wait_for(sends_, to(1));
    const int chunk = from(arrived_);
    for (std::size_t i = 0; i < own_.size(); ++i) send_aside(sends_, rows(i, chunk), own_[i].bytes(), to(1));
    receive_next();
    return false;
  }

  std::pmr::vector<MPI_Request> sends_;
  int arrived_ = 0;  ///< peers whose rows are there
};

/// Rank r sends sums to rank r − 1. The sum for rank d begins with the rows that rank d − 1 gives, and each rank that
/// receives the sum adds its own: d − 2, …, d + 1 and, last, d. With more than two ranks the sums are sent in fp32, so
/// that bf16 is rounded once.
class RingScatter final : public HostScatter {
 public:
  RingScatter(std::shared_ptr<Group> group, const Item& item, std::string_view label)
      : HostScatter(std::move(group), item, label),
        received_(
            group_->scratch.take(Communicator::ring_scratch_bytes(item.whole.bytes(), group_->size, item.whole.dtype))),
        sends_(&group_->memory) {
    receive_next();
  }

  Tensor whole() override { return item_.whole; }
  void give(int rank) override {
    HostScatter::give(rank);
    advance();  // the sum that these rows are added to may be there
  }
  bool staged() const override { return hop_ < group_->size - 1; }
  void give_back() noexcept override { PendingCollective::give_back<RingScatter>(this); }

 private:
  std::size_t sum_bytes() const { return static_cast<std::size_t>(item_.out.count()) * sizeof(float); }
  /// The first sum that a rank receives is one rank's rows.
  bool summed(int hop) const { return hop > 1 || item_.out.dtype == DType::fp32; }
  /// Where the sum that is sent after a hop lies.
  std::byte* sum(int hop) const { return received_.data() + static_cast<std::size_t>(hop - 1) * sum_bytes(); }
  /// Where the sum that is received in a hop lies: rows of bf16 behind all sums.
  std::byte* incoming(int hop) const {
    if (summed(hop)) return sum(hop);
    return group_->size == 2 ? received_.data() : sum(group_->size);
  }
  void receive_next() { receive(incoming(hop_), summed(hop_) ? sum_bytes() : item_.out.bytes(), to(1)); }

  void hand_over(int peer) override {
    if (peer == to(1)) send_aside(sends_, rows_of(item_, peer), item_.out.bytes(), from(1));
  }
  const std::byte* partial_sums(int rank) const override { return rows_of(item_, rank); }

  int chunk() const override { return ended_ ? HostWaits::kNoPeer : to(hop_ + 1); }
  bool ready() override { return finishing() || (staged() && can_pass_on()); }
  /// The neighbour expects sums in their order, which begins with this rank's rows.
  bool can_pass_on() const { return is_given(to(1)) && is_given(to(hop_ + 1)); }

  /// out = the sum that was received + this rank's rows + addend.
  void add(std::byte* out, DType dtype, const std::byte* addend) {
    sources_.clear();
    if (!summed(hop_)) sources_.push_back(incoming(hop_));
    sources_.push_back(partial_sums(to(hop_ + 1)));
    if (addend != nullptr) sources_.push_back(addend);
    const auto* const begin = summed(hop_) ? reinterpret_cast<const float*>(incoming(hop_)) : nullptr;
    add_in_order(out, dtype, begin, sources_, item_.out.count(), item_.out.dtype);
  }

  bool next_stage() override {
    if (ended_) return true;
    if (staged() && can_pass_on()) {
      add(sum(hop_), DType::fp32, nullptr);
      send_aside(sends_, sum(hop_), sum_bytes(), from(1));
      ++hop_;
      receive_next();
      return false;
    }
    if (all_given()) add(item_.out.data, item_.out.dtype, item_.addend.data);
    ended_ = true;
    return wait_for(sends_, from(1));
  }

  ScratchPool::Block received_;
  std::pmr::vector<MPI_Request> sends_;
  int hop_ = 1;  ///< the sum that is received is the hop_-th
  bool ended_ = false;
};

}  // namespace

GatherExchangePtr gather_in_ring(const std::shared_ptr<Group>& group, std::span<const Tensor> whole,
                                 std::span<const Tensor> own, std::string_view label) {
  return GatherExchangePtr(make_exchange<RingGather>(group, whole, own, label));
}

ScatterExchangePtr scatter_in_ring(const std::shared_ptr<Group>& group, const Item& item, std::string_view label) {
  return ScatterExchangePtr(make_exchange<RingScatter>(group, item, label));
}

std::size_t Communicator::ring_scratch_bytes(std::size_t whole_bytes, int group_size, DType dtype) {
  if (group_size == 1) return 0;
  const auto n = static_cast<std::size_t>(group_size);
  const std::size_t rows = whole_bytes / n;
  if (dtype == DType::fp32) return (n - 1) * rows;
  const std::size_t sums = group_size == 2 ? 0 : (n - 1) * (rows / size_of(dtype)) * sizeof(float);
  return sums + rows;
}

}  // namespace shard8::comm

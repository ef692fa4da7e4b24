// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "comm/agree.hpp"
#include "comm/communicator.hpp"
#include "comm/describe.hpp"
#include "comm/device.hpp"
#include "comm/mpi/all_reduce.hpp"
#include "comm/mpi/group.hpp"
#include "comm/mpi/host_parts.hpp"
#include "comm/node.hpp"

// Exchanges of parts on hosts: which way an exchange goes, and the exchanges round a ring.

namespace shard8::comm {
namespace {

using Item = Communicator::ReduceScatterItem;
using tensor::Tensor;

/// Destroys an exchange that lies in the memory of `group`, which this call keeps alive.
template <class Exchange>
void give_back_to(const std::shared_ptr<Group> group, Exchange* exchange) noexcept {
  std::pmr::polymorphic_allocator<>(&group->memory).delete_object(exchange);
}

/// An exchange in a group of one rank: nothing is sent or recorded.
class LoneGather final : public GatherExchange {
 public:
  LoneGather(std::shared_ptr<Group> group, std::span<const Tensor> whole, std::span<const Tensor> own)
      : group_(std::move(group)), own_(own.begin(), own.end(), &group_->memory) {
    for (std::size_t i = 0; i < own.size(); ++i) group_->copy(whole[i].data, own[i]);
  }
  void await(int) override {}
  Tensor part(std::size_t i, int) const override { return own_.at(i); }
  void finish() override {}
  bool abandon() noexcept override { return true; }
  void give_back() noexcept override { give_back_to(group_, this); }

 private:
  std::shared_ptr<Group> group_;
  std::pmr::vector<Tensor> own_;
};

class LoneScatter final : public ScatterExchange {
 public:
  LoneScatter(std::shared_ptr<Group> group, const Item& item) : group_(std::move(group)), item_(item) {}
  Tensor whole() override { return item_.whole; }
  void give(int) override {}
  void finish() override { group_->copy(item_.out.data, item_.whole); }
  bool abandon() noexcept override { return true; }
  void give_back() noexcept override { give_back_to(group_, this); }

 private:
  std::shared_ptr<Group> group_;
  Item item_;
};

void require_direct(Route route, std::string_view operation, std::string_view label, const Group& group) {
  SHARD8_REQUIRE(route == Route::direct, "{} for {} in group '{}': no ring passes on the memory of devices", operation,
                 label, group.name);
}

}  // namespace

GatherParts Communicator::all_gather_parts(std::span<const Tensor> whole, std::span<const Tensor> own,
                                           std::string_view label, Route route, bool own_too) const {
  SHARD8_REQUIRE(own.size() == whole.size(), "all_gather for {} in group '{}': own rows of {} tensors are given for {}",
                 label, name(), own.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) require_shard(whole[i], own[i]);
  if (DeviceGroup* const on_device = size_ == 1 ? nullptr : group_->on_device("all_gather")) {
    require_direct(route, "all_gather", label, *group_);
    for (const Tensor& t : whole) require_data(t, *group_, "all_gather");
    return {on_device->all_gather_parts(whole, own, label, own_too), rank_, size_};
  }
  const auto window = group_->window.lock();
  if (window != nullptr && window->gathers() && route == Route::direct)
    return {gather_in_window(group_, window, whole, own, label), rank_, size_};
  for (const Tensor& t : whole) require_data(t, *group_, "all_gather");
  if (size_ == 1) return {GatherExchangePtr(make_exchange<LoneGather>(group_, whole, own)), rank_, size_};
  if (route == Route::ring) return {gather_in_ring(group_, whole, own, label), rank_, size_};
  return {gather_by_messages(group_, whole, own, label), rank_, size_};
}

ScatterParts Communicator::reduce_scatter_parts(const Item& item, std::string_view label, Route route) const {
  require_item(item, *group_);
  if (DeviceGroup* const on_device = size_ == 1 ? nullptr : group_->on_device("reduce_scatter")) {
    require_direct(route, "reduce_scatter", label, *group_);
    require_data(item.whole, *group_, "reduce_scatter");
    return {on_device->reduce_scatter_parts(item, label), rank_, size_};
  }
  const auto window = group_->window.lock();
  if (window != nullptr && window->scatters() && route == Route::direct)
    return {scatter_in_window(group_, window, item, label), rank_, size_};
  require_data(item.whole, *group_, "reduce_scatter");
  if (size_ == 1) {
    SHARD8_REQUIRE(item.addend.empty(), "reduce_scatter for {} in group '{}' of one rank with an addend", label,
                   name());
    return {ScatterExchangePtr(make_exchange<LoneScatter>(group_, item)), rank_, size_};
  }
  if (route == Route::ring) return {scatter_in_ring(group_, item, label), rank_, size_};
  return {scatter_by_messages(group_, item, label), rank_, size_};
}

std::shared_ptr<PartsMemory> Communicator::parts_memory(std::size_t gather_bytes, std::size_t scatter_bytes,
                                                        std::string* problem) const {
  std::string reason;
  std::shared_ptr<SharedWindow> window;
  if (size_ == 1) {
    reason = fmt::format("group '{}' has one rank", name());
  } else if (device() != nullptr) {
    reason = "tensors are in the memory of devices";
  } else {
    try {
      window = std::make_shared<SharedWindow>(*this, group_->comm, gather_bytes, scatter_bytes);
    } catch (const AgreedError& e) {
      reason = e.what();
    }
  }
  if (problem != nullptr) *problem = reason;
  group_->window = window;
  return window;
}

std::string Communicator::parts_transport(std::size_t gather_bytes, std::size_t scatter_bytes) const {
  if (size_ == 1) return "none";
  const auto because = [&](std::string_view otherwise) -> std::string_view {
    return placement().nodes() > 1 ? "because the group is on several nodes" : otherwise;
  };
  if (device() != nullptr) {
    SHARD8_REQUIRE(group_->device != nullptr, "group '{}' was given no lane of its device", name());
    if (group_->device->uses_memory_of_peers(*this)) return "memory of peers";
    return fmt::format("NCCL, {}", because("because devices cannot map each other's memory"));
  }
  SHARD8_REQUIRE(group_->window.expired(), "group '{}' has memory for exchanges by parts already", name());
  if (gather_bytes + scatter_bytes == 0) return "messages, because no exchange goes by parts";
  if (parts_memory(gather_bytes, scatter_bytes) != nullptr) return std::string(kSharedMemory);
  return fmt::format("messages, {}", because("because the ranks cannot have the memory"));
}

std::size_t Communicator::parts_memory_bytes(std::size_t gather_bytes, std::size_t scatter_bytes, int group_size) {
  return SharedWindow::bytes_of(gather_bytes, scatter_bytes, group_size);
}

// Exchanges by messages round a ring: each rank receives from one neighbour and sends to the other one.

namespace {

using tensor::DType;

/// Rank r sends rows to rank r + 1. The rows of rank r − k arrive k-th, and are passed on unless rank r + 1 made them.
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

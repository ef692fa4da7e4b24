// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Which way an exchange of parts goes.

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "comm/agree.hpp"
#include "comm/communicator.hpp"
#include "comm/describe.hpp"
#include "comm/device.hpp"
#include "comm/mpi/group.hpp"
#include "comm/mpi/host_parts.hpp"
#include "comm/mpi/shared_window.hpp"
#include "comm/node.hpp"

namespace shard8::comm {
namespace {

using Item = Communicator::ReduceScatterItem;
using tensor::Tensor;

/// Destroys an exchange that lies in the memory of `group`, which this call keeps alive.
template <class Exchange>
void give_back_to(const std::shared_ptr<Group> group, Exchange* exchange) noexcept {
  std::pmr::polymorphic_allocator<>(&group->memory).delete_object(exchange);
}

/// In a group of one rank: nothing is sent or recorded.
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

}  // namespace shard8::comm

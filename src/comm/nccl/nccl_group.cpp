// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/nccl_group.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "comm/describe.hpp"
#include "comm/peer/push_sums.hpp"
#include "tensor/cuda/device.hpp"

namespace shard8::comm::nccl {
namespace {

using profile::Collective;
using tensor::DType;
using tensor::Tensor;

// NCCL's type for a dtype that the communicator's checks let pass.
ncclDataType_t arithmetic_type(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return ncclFloat32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::i32:
      return ncclInt32;
    default:
      break;
  }
  base::fail(base::ExitCode::failed, "{} cannot be reduced", name_of(dtype));
}

std::size_t count_of(const Tensor& t) { return static_cast<std::size_t>(t.count()); }

/// The memory that holds the wholes of all items, if one does.
template <class Memory, class Items, class WholeOf>
std::shared_ptr<Memory> memory_of(const std::vector<std::weak_ptr<Memory>>& memories, const Items& items,
                                  const WholeOf& whole) {
  for (const auto& weak : memories) {
    auto memory = weak.lock();
    if (memory == nullptr) continue;
    if (std::all_of(items.begin(), items.end(), [&](const auto& item) { return memory->holds(whole(item)); }))
      return memory;
  }
  return nullptr;
}

}  // namespace

NcclGroup::NcclGroup(NcclDevice& device, const Communicator& group, DeviceLanes lanes, profile::CollectiveLog* log)
    : device_(device),
      info_(std::make_shared<GroupInfo>(GroupInfo{group.name(), group.rank(), group.size(), log})),
      order_(group.order()),
      push_lane_(lanes.push ? device.gather_lane(true) : device.compute_lane()) {
  const Identities::Ranks ranks = device_.ranks_of(group);
  const auto make = [&](const char* purpose, int ctas, bool zero_cta) {
    const NcclCommunicator::Options options{ctas, zero_cta};
    return std::make_shared<NcclCommunicator>(group, *info_, ranks, purpose, options, device_.health(),
                                              device_.identities());
  };
  const Settings& settings = device_.settings();
  if (lanes.gather)
    gather_ = {&device_.gather_lane(lanes.apart),
               make("gathers", settings.gather_ctas, settings.gather == Gather::zero_cta)};
  if (lanes.reduce)
    reduce_ = all_reduce_ = {&device_.reduce_lane(lanes.apart), make("reductions", settings.reduce_ctas, false)};
  if (lanes.compute) {
    const bool small = may_use_peers() && problem_with_peers(group, device_.compute_lane().stream()).empty();
    const Route compute{&device_.compute_lane(),
                        device_.on_compute_lane(group, *info_, ranks, small ? settings.small_ctas : 0)};
    if (!lanes.gather) gather_ = compute;
    if (!lanes.reduce) reduce_ = compute;
    all_reduce_ = compute;
  }
}

NcclGroup::~NcclGroup() {
  for (const Route& route : {gather_, reduce_, all_reduce_}) {
    if (route.lane != nullptr) route.lane->drain();
  }
  if (pushes_) push_lane_.drain();
}

void NcclGroup::begin_group(const char* purpose, const Route& route) const {
  const ncclComm_t communicator = route.communicator->get();  // made outside of NCCL's group
  SHARD8_NCCL_CHECK(ncclGroupStart(), purpose, *info_, communicator);
}

void NcclGroup::end_group(const char* purpose, const Route& route) const {
  SHARD8_NCCL_CHECK(ncclGroupEnd(), purpose, *info_, route.communicator->get());
}

/// Starts the call. If all wholes lie in one memory of the group, calls gather(memory) and returns true; otherwise
/// returns false.
template <class Gather>
bool NcclGroup::gathers_in_memory(const Route& route, Call& call, std::span<const Tensor> whole,
                                  const Gather& gather) const {
  const auto gather_in = [&](const auto& memories) {
    const auto memory = memory_of(memories, whole, [](const Tensor& t) { return t; });
    if (memory == nullptr) return false;
    route.lane->start(call, memory->next_call());
    gather(*memory);
    return true;
  };
  const bool gathered = exchanges(route) ? gather_in(exchange_memories_) : gather_in(peer_memories_);
  if (!gathered) route.lane->start(call);
  return gathered;
}

DeviceCall* NcclGroup::all_gather_in_place(std::span<const Tensor> whole, std::span<const Tensor> own,
                                           std::string_view label, Communicator::OwnPart own_part) {
  const Route& route = route_of(gather_, "all_gather");
  Call& call = route.lane->next(info_, Collective::all_gather, label);
  for (const Tensor& t : whole) call.count(t);
  if (gathers_in_memory(route, call, whole, [&](auto& memory) { memory.gather(whole, own, own_part); }))
    return route.lane->end(call);
  begin_group("all_gather", route);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const OwnRows rows = own_rows(whole, own, i, info_->rank, info_->size);
    if (rows.bytes == 0) continue;
    SHARD8_NCCL_CHECK(
        ncclAllGather(rows.data, whole[i].data, rows.bytes, ncclUint8, route.communicator->get(), route.lane->stream()),
        "all_gather", *info_, route.communicator->get());
  }
  end_group("all_gather", route);
  return route.lane->end(call);
}

DeviceCall* NcclGroup::all_gather_columns(const Tensor& whole, const Tensor& own, const Tensor& through,
                                          std::string_view label, Communicator::OwnPart own_part) {
  const Route& route = route_of(gather_, "all_gather");
  Call& call = route.lane->next(info_, Collective::all_gather, label);
  call.count(whole);
  if (gathers_in_memory(route, call, {&whole, 1}, [&](auto& memory) { memory.gather_columns(whole, own, own_part); }))
    return route.lane->end(call);
  const ncclComm_t communicator = route.communicator->get();
  SHARD8_NCCL_CHECK(ncclAllGather(own.data, through.data, own.bytes(), ncclUint8, communicator, route.lane->stream()),
                    "all_gather", *info_, communicator);
  for (int rank = 0; rank < info_->size; ++rank) {
    const OwnColumns to = own_columns(whole, own, rank);
    SHARD8_CUDA_CHECK(cudaMemcpy2DAsync(to.place, to.pitch, through.data + static_cast<std::size_t>(rank) * own.bytes(),
                                        to.width, to.width, to.rows, cudaMemcpyDeviceToDevice, route.lane->stream()));
  }
  return route.lane->end(call);
}

DeviceCall* NcclGroup::reduce_scatter(std::span<const Communicator::ReduceScatterItem> items, std::string_view label) {
  const Route& route = route_of(reduce_, "reduce_scatter");
  Call& call = route.lane->next(info_, Collective::reduce_scatter, label);
  for (const auto& item : items) call.count(item.whole);
  if (const auto memory = push_sums_.lock(); memory != nullptr) {
    route.lane->start(call, memory->next_call());
    memory->reduce_scatter(items);
    route.lane->extend(call, memory->last_number());
    return route.lane->end(call);
  }
  if (exchanges(route)) {
    if (const auto memory = memory_of(exchange_memories_, items, [](const auto& item) { return item.whole; })) {
      route.lane->start(call, memory->next_call());
      memory->reduce_scatter(items);
      return route.lane->end(call);
    }
  }
  route.lane->start(call);
  const auto sum_of = [&](const auto& item) {  // where it is made: in the whole if something is added yet
    return item.addend.empty() ? item.out.data : rows_of(item, info_->rank);
  };
  begin_group("reduce_scatter", route);
  for (const auto& item : items) {
    if (item.out.empty()) continue;
    SHARD8_NCCL_CHECK(
        ncclReduceScatter(item.whole.data, sum_of(item), count_of(item.out), arithmetic_type(item.out.dtype), ncclSum,
                          route.communicator->get(), route.lane->stream()),
        "reduce_scatter", *info_, route.communicator->get());
  }
  end_group("reduce_scatter", route);
  for (const auto& item : items) {
    if (item.addend.empty()) continue;
    peer::Parts sum;
    sum.add(sum_of(item));
    peer::sum_item(route.lane->stream(), item, 0, item.out.bytes(), sum);
  }
  return route.lane->end(call);
}

DeviceCall* NcclGroup::reduce_scatter_partial_sums(const Communicator::ReduceScatterItem& item,
                                                   tensor::PartialSums& partial_sums, std::string_view label) {
  const auto memory = push_sums_.lock();
  // Readers of partial sums add them in rank order.
  if (memory == nullptr || order_ != SumOrder::ranks || info_->size > tensor::PartialSums::kMost ||
      !memory->fits(item)) {
    partial_sums = item.out;
    return reduce_scatter({&item, 1}, label);
  }
  const Route& route = route_of(reduce_, "reduce_scatter");
  Call& call = route.lane->next(info_, Collective::reduce_scatter, label);
  call.count(item.whole);
  route.lane->start(call, memory->next_call());
  partial_sums = memory->push_partial_sums(item);
  route.lane->extend(call, memory->last_number());
  return route.lane->end(call);
}

GatherExchangePtr NcclGroup::all_gather_parts(std::span<const Tensor> whole, std::span<const Tensor> own,
                                              std::string_view label, bool own_too) {
  const Route& route = route_of(gather_, "all_gather");
  DeviceGather& gather = unused(gathers_);
  const auto memory = exchanges(route) ? nullptr : memory_of(peer_memories_, whole, [](const Tensor& t) { return t; });
  if (memory == nullptr) {
    gather.begin_whole(*info_, all_gather_in_place(whole, own, label, Communicator::OwnPart::copied), whole, own);
    return GatherExchangePtr(&gather);
  }
  Call& call = route.lane->next(info_, Collective::all_gather, label);
  for (const Tensor& t : whole) call.count(t);
  route.lane->start(call, memory->next_call());
  gather.begin_parts(*info_, *route.lane, call, *memory, whole, own, own_too);
  return GatherExchangePtr(&gather);
}

ScatterExchangePtr NcclGroup::reduce_scatter_parts(const Communicator::ReduceScatterItem& item,
                                                   std::string_view label) {
  const Route& route = route_of(reduce_, "reduce_scatter");
  auto memory = push_sums_.lock();
  if (memory != nullptr && !memory->fits(item)) memory.reset();
  DeviceScatter& scatter = unused(scatters_);
  scatter.begin(*this, info_, *route.lane, std::move(memory), item, label);
  return ScatterExchangePtr(&scatter);
}

DeviceCall* NcclGroup::all_reduce(std::span<const Tensor> items, Communicator::Reduce reduce) {
  const Route& route = route_of(all_reduce_, "all_reduce");
  Call& call = route.lane->next(info_, Collective::all_reduce);
  for (const Tensor& t : items) call.count(t);
  route.lane->start(call);
  if (const auto memory = tree_sums_.lock(); memory != nullptr && reduce == Communicator::Reduce::sum) {
    memory->all_reduce(items);
    return route.lane->end(call);
  }
  const ncclRedOp_t op = reduce == Communicator::Reduce::sum ? ncclSum : ncclMax;
  begin_group("all_reduce", route);
  for (const Tensor& t : items) {
    if (t.empty()) continue;
    SHARD8_NCCL_CHECK(ncclAllReduce(t.data, t.data, count_of(t), arithmetic_type(t.dtype), op,
                                    route.communicator->get(), route.lane->stream()),
                      "all_reduce", *info_, route.communicator->get());
  }
  end_group("all_reduce", route);
  return route.lane->end(call);
}

DeviceCall* NcclGroup::exchange(profile::Collective op, std::span<const tensor::Tensor> sent,
                                std::span<const PeerPart> parts, std::string_view label) {
  const char* const name = name_of(op).data();  // of a literal
  const Route& route = route_of(gather_, name);
  const auto memory = slots_.lock();
  if (memory != nullptr) memory->require_room(parts);
  Call& call = route.lane->next(info_, op, label);
  for (const tensor::Tensor& t : sent) call.count(t);
  if (memory != nullptr) {
    route.lane->start(call, memory->next_call());
    memory->exchange(parts);
    return route.lane->end(call);
  }
  route.lane->start(call);
  begin_group(name, route);
  const cudaStream_t stream = route.lane->stream();
  const ncclComm_t communicator = route.communicator->get();
  for (const auto& [to, from, out, in] : parts) {
    if (to == info_->rank) continue;
    if (!in.empty())
      SHARD8_NCCL_CHECK(ncclSend(in.data, in.bytes(), ncclUint8, to, communicator, stream), name, *info_, communicator);
    if (!out.empty())
      SHARD8_NCCL_CHECK(ncclRecv(out.data, out.bytes(), ncclUint8, from, communicator, stream), name, *info_,
                        communicator);
  }
  end_group(name, route);
  for (const auto& [to, from, out, in] : parts) {
    if (to == info_->rank && !in.empty())
      SHARD8_CUDA_CHECK(cudaMemcpyAsync(out.data, in.data, in.bytes(), cudaMemcpyDeviceToDevice, stream));
  }
  return route.lane->end(call);
}

void NcclGroup::begin_push(PushMemory& memory, std::span<const tensor::Tensor> sent, std::string_view label,
                           Communicator::PeersRead peers_read) {
  SHARD8_REQUIRE(push_.call == nullptr, "a push {} begins before the push before it has ended", where(*info_));
  auto* const pushed = dynamic_cast<peer::PushedMemory*>(&memory);
  SHARD8_REQUIRE(pushed != nullptr, "a push {} to memory that is not of push_memory()", where(*info_));
  push_ = {pushed, &push_lane_.next(info_, Collective::all_to_all, label)};
  pushes_ = true;
  for (const tensor::Tensor& t : sent) push_.call->count(t);
  push_lane_.start(*push_.call, pushed->next_call());
  pushed->begin(peers_read);
}

DeviceCall* NcclGroup::end_push() {
  const Push push = std::exchange(push_, {});
  push.memory->end();
  return push_lane_.end(*push.call);
}

/// Throws when the group has no lane for the operation.
const NcclGroup::Route& NcclGroup::route_of(const Route& route, const char* operation) const {
  SHARD8_REQUIRE(route.lane != nullptr, "{} {}: the group was given no lane for it", operation, where(*info_));
  return route;
}

}  // namespace shard8::comm::nccl

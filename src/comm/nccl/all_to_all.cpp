// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"
#include "comm/nccl/check.hpp"
#include "comm/nccl/nccl_group.hpp"
#include "comm/rows.hpp"
#include "tensor/cuda/check.hpp"

namespace shard8::comm::nccl {

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

std::shared_ptr<DeviceMemory> NcclGroup::all_to_all_memory(const Communicator& group, std::size_t bytes) {
  const HostWaits::Wait wait(group.waits(), subject_of("making all-to-all memory", *info_));
  const Gather asked = device_.settings().gather;
  if (asked != Gather::automatic && asked != Gather::push) {
    device_.state(fmt::format("group '{}': all-to-alls by NCCL", info_->name));
    return nullptr;
  }
  const cudaStream_t stream = route_of(gather_, "all-to-all memory").lane->stream();
  const std::string problem = problem_with_peers(group, stream);
  if (!problem.empty()) {
    device_.state(
        fmt::format("group '{}': all-to-alls by NCCL; by copy engines is not active: {}", info_->name, problem));
    return nullptr;
  }
  auto memory = std::make_shared<peer::SlotMemory>(group, bytes, stream);
  slots_ = memory;
  device_.state(fmt::format("group '{}': all-to-alls by copy engines, pushed to peers: active", info_->name));
  return memory;
}

}  // namespace shard8::comm::nccl

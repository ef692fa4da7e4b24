// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/nccl/device_parts.hpp"
#include "comm/nccl/nccl_device.hpp"
#include "comm/peer/peer_memory.hpp"
#include "comm/peer/push_sums.hpp"
#include "comm/peer/slot_memory.hpp"

namespace shard8::comm::nccl {

class NcclGroup final : public DeviceGroup {
 public:
  /// Collective over `group`.
  NcclGroup(NcclDevice& device, const Communicator& group, DeviceLanes lanes, profile::CollectiveLog* log);
  ~NcclGroup() override;

  DeviceCall* all_gather_in_place(std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own,
                                  std::string_view label, Communicator::OwnPart own_part) override;
  DeviceCall* all_gather_columns(const tensor::Tensor& whole, const tensor::Tensor& own, const tensor::Tensor& through,
                                 std::string_view label, Communicator::OwnPart own_part) override;
  DeviceCall* reduce_scatter(std::span<const Communicator::ReduceScatterItem> items, std::string_view label) override;
  DeviceCall* reduce_scatter_summands(const Communicator::ReduceScatterItem& item, tensor::Summands& summands,
                                      std::string_view label) override;
  GatherExchangePtr all_gather_parts(std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own,
                                     std::string_view label, bool own_too) override;
  ScatterExchangePtr reduce_scatter_parts(const Communicator::ReduceScatterItem& item, std::string_view label) override;
  DeviceCall* all_reduce(std::span<const tensor::Tensor> items, Communicator::Reduce reduce) override;
  DeviceCall* exchange(profile::Collective op, std::span<const tensor::Tensor> sent, std::span<const PeerPart> parts,
                       std::string_view label) override;
  std::shared_ptr<DeviceMemory> all_to_all_memory(const Communicator& group, std::size_t bytes) override;
  std::shared_ptr<DeviceMemory> gather_memory(const Communicator& group, std::size_t bytes) override;
  std::shared_ptr<DeviceMemory> reduce_memory(const Communicator& group, std::size_t bytes) override;
  bool uses_memory_of_peers(const Communicator& group) override;

 private:
  struct Route {
    Lane* lane = nullptr;
    std::shared_ptr<NcclCommunicator> communicator;
  };
  bool may_use_peers() const;
  static std::string problem_with_peers(const Communicator& group, cudaStream_t stream);
  std::shared_ptr<DeviceMemory> window_memory(const Communicator& group, std::size_t bytes);
  const Route& route_of(const Route& route, const char* operation) const;
  template <class Gather>
  bool gathers_in_memory(const Route& route, Call& call, std::span<const tensor::Tensor> whole,
                         const Gather& gather) const;
  bool exchanges(const Route& route) const { return route.lane == &device_.compute_lane(); }
  void begin_group(const char* purpose, const Route& route) const;
  void end_group(const char* purpose, const Route& route) const;

  NcclDevice& device_;
  std::shared_ptr<const GroupInfo> info_;
  Route gather_, reduce_, all_reduce_;
  std::vector<std::weak_ptr<peer::PeerMemory>> peer_memories_;          ///< of the gather lane
  std::vector<std::weak_ptr<peer::ExchangeMemory>> exchange_memories_;  ///< of the compute lane
  std::weak_ptr<peer::PushSums> push_sums_;
  std::weak_ptr<peer::SlotMemory> slots_;
  std::vector<std::unique_ptr<DeviceGather>> gathers_;
  std::vector<std::unique_ptr<DeviceScatter>> scatters_;
};

}  // namespace shard8::comm::nccl

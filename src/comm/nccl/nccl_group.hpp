// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/host_waits.hpp"
#include "comm/nccl/communicator.hpp"
#include "comm/nccl/device.hpp"
#include "comm/nccl/device_parts.hpp"
#include "comm/nccl/lane.hpp"
#include "comm/peer/peer_memory.hpp"
#include "comm/peer/push_sums.hpp"

namespace shard8::comm::nccl {

class NcclDevice final : public Device {
 public:
  NcclDevice(const Communicator& world, cudaStream_t compute, Settings settings);

  std::unique_ptr<DeviceGroup> make_group(const Communicator& group, DeviceLanes lanes,
                                          profile::CollectiveLog* log) override;
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override;
  void record_calls() override;
  void set_trace_origin() override;
  void first_step_over() override;
  std::vector<std::string> describe() const override { return statements_; }
  std::string identity() const override;

  const Settings& settings() const { return settings_; }
  Health& health() { return health_; }
  Identities& identities() { return identities_; }
  /// The ranks of a group in the world. Collective over it.
  Identities::Ranks ranks_of(const Communicator& group) const;
  Lane& compute_lane() { return compute_; }
  /// See DeviceLanes; `apart` is its member.
  Lane& gather_lane(bool apart) { return apart ? *gather_apart_ : *gather_; }
  Lane& reduce_lane(bool apart) { return apart ? *reduce_apart_ : *reduce_; }
  /// The communicator for the compute lane of a group with these ranks. Collective. Groups of the same ranks share one
  /// communicator, because everything on that stream is in one order; it has the `most_ctas` of the first of them.
  std::shared_ptr<NcclCommunicator> on_compute_lane(const Communicator& group, const GroupInfo& info,
                                                    const Identities::Ranks& ranks, int most_ctas);
  /// A line for describe(), said once.
  void state(std::string line) {
    if (std::find(statements_.begin(), statements_.end(), line) == statements_.end())
      statements_.push_back(std::move(line));
  }

 private:
  std::optional<std::string> problem();
  std::array<Lane*, 5> lanes() {
    return {&compute_, gather_.get(), reduce_.get(), gather_apart_.get(), reduce_apart_.get()};
  }

  Settings settings_;
  int index_;
  int world_rank_;
  cudaStream_t stream_;
  tensor::cuda::Event trace_origin_{tensor::cuda::Event::Times::yes};
  Lane compute_;
  std::unique_ptr<Lane> gather_, reduce_, gather_apart_, reduce_apart_;
  peer::WordsReader reader_;  // behind the lanes, so that its stream does not change their streams' hardware queues
  Health health_;
  Identities identities_;
  std::map<Identities::Ranks, std::weak_ptr<NcclCommunicator>> on_compute_lane_;
  std::vector<std::string> statements_;
  std::atomic<bool> first_step_over_ = false;
  Watchdog watchdog_;  // last: it looks at the others
};

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
  DeviceCall* reduce_scatter_partial_sums(const Communicator::ReduceScatterItem& item,
                                          tensor::PartialSums& partial_sums, std::string_view label) override;
  GatherExchangePtr all_gather_parts(std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own,
                                     std::string_view label, bool own_too) override;
  ScatterExchangePtr reduce_scatter_parts(const Communicator::ReduceScatterItem& item, std::string_view label) override;
  DeviceCall* all_reduce(std::span<const tensor::Tensor> items, Communicator::Reduce reduce) override;
  DeviceCall* exchange(profile::Collective op, std::span<const tensor::Tensor> sent, std::span<const PeerPart> parts,
                       std::string_view label) override;
  std::shared_ptr<DeviceMemory> all_to_all_memory(const Communicator& group, std::size_t bytes) override;
  std::shared_ptr<PushMemory> push_memory(const Communicator& group, std::size_t bytes) override;
  void begin_push(PushMemory& memory, std::span<const tensor::Tensor> sent, std::string_view label,
                  Communicator::PeersRead peers_read) override;
  DeviceCall* end_push() override;
  std::shared_ptr<DeviceMemory> gather_memory(const Communicator& group, std::size_t bytes) override;
  std::shared_ptr<DeviceMemory> reduce_memory(const Communicator& group, std::size_t bytes) override;
  std::shared_ptr<DeviceMemory> all_reduce_memory(const Communicator& group, std::size_t bytes) override;
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
  SumOrder order_;
  Lane& push_lane_;
  Route gather_, reduce_, all_reduce_;
  std::vector<std::weak_ptr<peer::PeerMemory>> peer_memories_;          ///< of the gather lane
  std::vector<std::weak_ptr<peer::ExchangeMemory>> exchange_memories_;  ///< of the compute lane
  std::weak_ptr<peer::PushSums> push_sums_;
  std::weak_ptr<TreeSums> tree_sums_;
  std::weak_ptr<peer::SlotMemory> slots_;
  struct Push {
    peer::PushedMemory* memory = nullptr;
    Call* call = nullptr;
  };
  Push push_;            ///< between begin_push() and end_push()
  bool pushes_ = false;  ///< the push lane has calls of this group
  std::vector<std::unique_ptr<DeviceGather>> gathers_;
  std::vector<std::unique_ptr<DeviceScatter>> scatters_;
};

}  // namespace shard8::comm::nccl

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/nccl/communicator.hpp"
#include "comm/nccl/device.hpp"
#include "comm/nccl/lane.hpp"
#include "comm/watchdog.hpp"

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

}  // namespace shard8::comm::nccl

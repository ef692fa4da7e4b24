// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/host_waits.hpp"
#include "comm/limits.hpp"
#include "comm/scratch.hpp"
#include "comm/waiting.hpp"
#include "profile/collective_log.hpp"
#include "tensor/tensor.hpp"

namespace shard8::comm {

class Device;
class DeviceGroup;
class PendingCollective;

/// What a communicator and all its splits share: the collectives under way in this process.
struct Engine {
  /// How many there are at a time depends on when they complete: this many take no further memory.
  static constexpr std::size_t kOutstanding = 64;
  explicit Engine(HostWaits* of_host = nullptr) : waits(of_host) { outstanding.reserve(kOutstanding); }

  std::vector<PendingCollective*> outstanding;
  std::shared_ptr<Device> device;  ///< where tensors are, if not in the memory of hosts
  Limits limits;
  HostWaits* waits = nullptr;  ///< what this rank's host waits for, for a watchdog; may be null
  /// When to stop waiting for collectives that an exception has left behind.
  std::optional<std::chrono::steady_clock::time_point> give_up;

  /// Advances every outstanding collective.
  void advance();
  /// Advances those that have a stage left to start. Peers may wait for it, so every wait calls it.
  void advance_staged(const PendingCollective* but);
  bool any_staged(const PendingCollective* but) const;
};

/// The state of a communicator, kept alive by it and by its pending collectives.
class Group {
 public:
  /// Bytes of the longest list that `memory` keeps: messages of a call.
  static constexpr std::size_t kLargestKept = std::size_t{64} << 10;

  /// Takes over `owned`.
  Group(MPI_Comm owned, std::string group_name, Waiting way, profile::CollectiveLog* calls,
        std::shared_ptr<Engine> shared);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// The group's collectives on the device; null where tensors are in the memory of hosts. Throws
  /// Error(failed) when it has none for `operation`.
  DeviceGroup* on_device(std::string_view operation) const;

  /// Within this rank's memory; nothing where `to` is `from`'s own memory.
  void copy(std::byte* to, const tensor::Tensor& from) const;

  /// What a wait of this group is called.
  HostWaits::Subject subject(std::string_view operation) const { return {operation, name, rank, size}; }

  /// Blocks until `request` is complete, by this group's way of waiting.
  void wait(MPI_Request& request, std::string_view call, std::string_view purpose) const;

  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  std::string name;
  Waiting waiting{};
  profile::CollectiveLog* log = nullptr;
  std::shared_ptr<Engine> engine;
  std::unique_ptr<DeviceGroup> device;
  ScratchPool scratch;
  /// Of what describes collectives under way; kept for those to come, so that a steady state allocates nothing.
  std::pmr::unsynchronized_pool_resource memory{{.largest_required_pool_block = kLargestKept}};
  std::vector<std::byte> control;  ///< every rank's small values, likewise
  unsigned sequence = 0;           ///< collectives started; makes tags
};

}  // namespace shard8::comm

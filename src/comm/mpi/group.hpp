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

#include "comm/communicator.hpp"
#include "comm/host_waits.hpp"
#include "profile/collective_log.hpp"
#include "tensor/tensor.hpp"

namespace shard8::comm {

/// Memory in which pending collectives receive. Blocks are kept for the next call, so that a steady
/// state allocates nothing; a block that is too small is replaced by a larger one.
class ScratchPool {
 public:
  static constexpr std::size_t kAlignment = 64;

  ScratchPool() = default;
  /// A pool that only counts: its blocks have no memory. Taking the blocks of a run from such a pool shows the memory
  /// that the run will take.
  static ScratchPool measure() { return ScratchPool(true); }

  /// Memory on loan; goes back to its pool on destruction. The pool must outlive it.
  class Block {
   public:
    Block() = default;
    Block(Block&& other) noexcept;
    Block& operator=(Block&& other) noexcept;
    ~Block() { give_back(); }

    std::byte* data() const { return memory_.get(); }
    void give_back();

   private:
    friend class ScratchPool;
    struct Free {
      void operator()(std::byte* memory) const noexcept;
    };
    std::unique_ptr<std::byte, Free> memory_;
    std::size_t bytes_ = 0;
    ScratchPool* pool_ = nullptr;
  };

  /// At least `bytes`, aligned to kAlignment, of undefined content; nothing for 0. Throws
  /// Error(environment) with the size when the memory cannot be had.
  Block take(std::size_t bytes);
  /// All memory of the pool, on loan or not.
  std::size_t bytes() const { return bytes_; }

 private:
  explicit ScratchPool(bool measuring) : measuring_(measuring) {}
  std::vector<Block> free_;
  std::size_t bytes_ = 0;
  bool measuring_ = false;
};

class Device;
class DeviceGroup;
class PendingCollective;
class SharedWindow;

/// What a communicator and all its splits share: the collectives under way in this process.
struct Engine {
  /// How many are under way at a time depends on when they complete. This many allocate nothing.
  static constexpr std::size_t kOutstanding = 64;
  Engine(HostWaits* of_host, const Limits& of_calls) : limits(of_calls), waits(of_host) {
    outstanding.reserve(kOutstanding);
  }

  std::vector<PendingCollective*> outstanding;
  std::shared_ptr<Device> device;  ///< where tensors are, if not in the memory of hosts
  Limits limits;
  HostWaits* waits = nullptr;  ///< what this rank's host waits for, for a watchdog; may be null
  /// When to stop waiting for collectives that an exception has left behind.
  std::optional<std::chrono::steady_clock::time_point> give_up;

  /// Advances every outstanding collective.
  void advance();
  /// Advances those, other than `but`, that have a stage left to start. Peers may wait for that stage, so every wait
  /// calls this.
  void advance_staged(const PendingCollective* but);
  bool any_staged(const PendingCollective* but) const;
};

/// The state of a communicator, kept alive by it and by its pending collectives.
class Group {
 public:
  /// Bytes of the longest list (messages of a call) that `memory` keeps.
  static constexpr std::size_t kLargestKept = std::size_t{64} << 10;

  /// Owns `owned` from now on.
  Group(MPI_Comm owned, std::string group_name, Waiting way, profile::CollectiveLog* calls,
        std::shared_ptr<Engine> shared, SumOrder sums = SumOrder::ranks);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// The group's collectives on the device; null where tensors are in host memory. Throws Error(failed), which names
  /// `operation`, when tensors are on a device and the group was given no lane of it.
  DeviceGroup* on_device(std::string_view operation) const;

  /// Copies within this rank's memory. Does nothing where `to` is the memory of `from`.
  void copy(std::byte* to, const tensor::Tensor& from) const;

  /// What a wait of this group is called.
  HostWaits::Subject subject(std::string_view operation) const { return {operation, name, rank, size}; }

  /// Lets MPI move messages of this process, for waits that call MPI for nothing else.
  void poll() const;
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
  std::weak_ptr<SharedWindow> window;  ///< for exchanges of parts, while its owner holds it
  ScratchPool scratch;
  /// Memory of collectives under way and of their lists. The memory is kept and used again, so that a steady state
  /// allocates nothing.
  std::pmr::unsynchronized_pool_resource memory{{.largest_required_pool_block = kLargestKept}};
  std::vector<std::byte> control;  ///< every rank's small values; kept, too
  unsigned sequence = 0;           ///< collectives started; tags are made from it
  SumOrder order;                  ///< of reduce-scatters and all-reduces
};

/// Throws Error(failed) with the call, what it was for, the group, this rank and MPI's own message unless `status` is
/// MPI_SUCCESS. `group` may be null before there is one.
void check_mpi(int status, std::string_view call, std::string_view purpose, const Group* group);

}  // namespace shard8::comm

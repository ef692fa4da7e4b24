// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.hpp"
#include "profile/collective_log.hpp"
#include "tensor/tensor.hpp"

/// What a library for collectives on device memory offers to communicators (comm/nccl does).

namespace shard8::comm {

/// A collective under way on another stream than the compute stream. The device owns it and uses it again.
class DeviceCall {
 public:
  /// What the compute stream is given from now on waits for the collective. The host does not. The caller must not use
  /// this object afterwards.
  virtual void wait() = 0;
  /// True when the collective is complete.
  virtual bool test() = 0;

 protected:
  ~DeviceCall() = default;
};

/// Memory of the device with which a group's collectives are fastest, of the same size on every rank. All ranks of the
/// group must free it together, before the communicator.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual std::byte* data() const = 0;
  virtual std::size_t bytes() const = 0;
};

/// Memory of the device into which kernels of all ranks of a group write: see Communicator::push.
class PushMemory : public DeviceMemory {
 public:
  /// The memory of a rank, at the address with which this rank writes to it. The memory of this rank is data().
  virtual std::byte* of(int rank) const = 0;
  /// The stream (cudaStream_t) on which a push() launches its kernels: another one than the compute stream if the group
  /// has DeviceLanes::push.
  virtual void* stream() const = 0;
};

/// Bytes of a device that NCCL takes in a process with `small` + `large` communicators: 354 MiB once, and for each
/// communicator 78 MiB if it is limited to four thread blocks (small), else 486 MiB (large). Measured with NCCL 2.28.9
/// on two H200 by cudaMemGetInfo. Communicators of several nodes may take more.
constexpr std::size_t nccl_memory_bytes(std::size_t small, std::size_t large) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  return small + large == 0 ? 0 : (354 + 78 * small + 486 * large) * kMiB;
}

/// The collectives of a group of several ranks, as Communicator declares them, on tensors that Communicator has
/// checked. A null DeviceCall means that the collective is on the compute stream, in that stream's order.
class DeviceGroup {
 public:
  virtual ~DeviceGroup() = default;
  virtual DeviceCall* all_gather_in_place(std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own,
                                          std::string_view label, Communicator::OwnPart own_part) = 0;
  virtual DeviceCall* all_gather_columns(const tensor::Tensor& whole, const tensor::Tensor& own,
                                         const tensor::Tensor& through, std::string_view label,
                                         Communicator::OwnPart own_part) = 0;
  virtual DeviceCall* reduce_scatter(std::span<const Communicator::ReduceScatterItem> items,
                                     std::string_view label) = 0;
  virtual DeviceCall* reduce_scatter_partial_sums(const Communicator::ReduceScatterItem& item,
                                                  tensor::PartialSums& partial_sums, std::string_view label) = 0;
  /// Collectives whose parts are used one by one. See Communicator.
  virtual GatherExchangePtr all_gather_parts(std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own,
                                             std::string_view label, bool own_too) = 0;
  virtual ScatterExchangePtr reduce_scatter_parts(const Communicator::ReduceScatterItem& item,
                                                  std::string_view label) = 0;
  virtual DeviceCall* all_reduce(std::span<const tensor::Tensor> items, Communicator::Reduce reduce) = 0;
  /// Starts an all_to_all or a send_receive (`op`), which moves `parts`. The log counts the bytes of the tensors in
  /// `sent`. All ranks of the group give the same number of parts that go to other ranks. Parts whose receivers have
  /// the same distance from this rank must stand next to each other in `parts`.
  virtual DeviceCall* exchange(profile::Collective op, std::span<const tensor::Tensor> sent,
                               std::span<const PeerPart> parts, std::string_view label) = 0;
  /// See Communicator::all_to_all_memory. Collective over `group`, the group of this object.
  virtual std::shared_ptr<DeviceMemory> all_to_all_memory(const Communicator& group, std::size_t bytes) = 0;
  /// See Communicator::push_memory. Collective over `group`, the group of this object.
  virtual std::shared_ptr<PushMemory> push_memory(const Communicator& group, std::size_t bytes) = 0;
  /// See Communicator::push. What the memory's stream is given between the two calls writes to the memory. `memory` is
  /// of push_memory().
  virtual void begin_push(PushMemory& memory, std::span<const tensor::Tensor> sent, std::string_view label,
                          Communicator::PeersRead peers_read) = 0;
  virtual DeviceCall* end_push() = 0;
  /// See Communicator::gather_memory. Collective over `group`, the group of this object.
  virtual std::shared_ptr<DeviceMemory> gather_memory(const Communicator& group, std::size_t bytes) = 0;
  /// See Communicator::reduce_memory. Collective over `group`, the group of this object.
  virtual std::shared_ptr<DeviceMemory> reduce_memory(const Communicator& group, std::size_t bytes) = 0;
  /// See Communicator::all_reduce_memory. Collective over `group`, the group of this object, of order SumOrder::tree.
  virtual std::shared_ptr<DeviceMemory> all_reduce_memory(const Communicator& group, std::size_t bytes) = 0;
  /// Whether gather_memory and reduce_memory are memory of peers, which ranks write to directly. Collective over
  /// `group`, the group of this object.
  virtual bool uses_memory_of_peers(const Communicator& group) = 0;
};

/// The device of this rank.
class Device {
 public:
  virtual ~Device() = default;
  /// Collective over `group`, which has several ranks; `log` may be null.
  virtual std::unique_ptr<DeviceGroup> make_group(const Communicator& group, DeviceLanes lanes,
                                                  profile::CollectiveLog* log) = 0;
  /// Copies within the device, in the order of the compute stream.
  virtual void copy(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  /// Records the measured calls that are complete and were waited for.
  virtual void record_calls() = 0;
  /// See Communicator::set_trace_origin().
  virtual void set_trace_origin() = 0;
  /// See Communicator::first_step_over().
  virtual void first_step_over() = 0;
  /// Lines for the report's header: the library, how each group gathers, and what was requested but is not active, with
  /// the reason.
  virtual std::vector<std::string> describe() const = 0;
  /// Names this rank's device: ranks that share a device have the same name, others have other names.
  virtual std::string identity() const = 0;
};

}  // namespace shard8::comm

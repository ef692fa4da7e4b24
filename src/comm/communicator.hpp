// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/lanes.hpp"
#include "comm/limits.hpp"
#include "comm/request.hpp"
#include "comm/waiting.hpp"
#include "profile/collective_log.hpp"
#include "tensor/tensor.hpp"

namespace shard8::comm {

class Device;
class DeviceMemory;
class Group;
class HostWaits;

/// A group of ranks and its collectives, on host memory by MPI or, once a device is attached, tensors
/// on device memory by the device's library. Move-only; frees what it duplicated. Every
/// collective must be called by all ranks of the group in the same order. All are nonblocking
/// underneath and wait as `waiting` says. A group of one does nothing and records nothing (outputs
/// are still filled). Every status is checked (Error(failed) with operation, group and rank).
///
/// On hosts, sums of fp32 and bf16 accumulate in fp32 in rank order (bf16: one rounding at the end), so
/// a result depends on neither message sizes nor library algorithms, and is the same on every rank.
/// On a device the same holds of reduce-scatters in gather_memory and with reduce_memory. Of others the library's order
/// does, the same on every rank and in every run on the same machine; sums of bf16 are rounded to bf16 after each
/// addition; and in a maximum of floats NaN need not win.
///
/// On a device a collective sees what the compute stream was given before the call, and the host waits
/// for none: see Request. What runs on which stream is chosen by the lanes of the group.
///
/// A grouped call of several dtypes is logged once under each, with that dtype's bytes and its share
/// of the time by bytes.
class Communicator {
 public:
  /// Duplicates `comm`; `name` is what reports and errors call the group. `waits`, which may be null and must live
  /// longer than the communicator and all its splits, is told what this rank's host waits for.
  Communicator(MPI_Comm comm, std::string name, Waiting waiting, profile::CollectiveLog* log,
               HostWaits* waits = nullptr);
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  /// Ranks of equal color, ordered by key. No collective may be under way on any rank. `lanes` count
  /// where a device is attached.
  Communicator split(int color, int key, std::string name, DeviceLanes lanes = {}) const;

  /// From now on tensors are in the memory of `device`, here and in what is split from this. Collective,
  /// before anything was split. Small host values stay with MPI.
  void attach(std::shared_ptr<Device> device, DeviceLanes lanes);
  /// Null on hosts.
  Device* device() const;
  /// Memory in which all_gather_in_place is fastest, and reduce_scatter of wholes that lie in it, if both are
  /// on the compute stream; null on hosts and in a group of one. Collective, with as many bytes on every rank;
  /// tensors of one call must lie at the same places in it.
  std::shared_ptr<DeviceMemory> gather_memory(std::size_t bytes) const;
  /// Memory with which reduce_scatter is fastest: it is used while it is held, and lies apart from all
  /// tensors. The less there is of it, the more turns a call takes; more than reduce_memory_bytes() for each
  /// of its items is of no use. Null on hosts, in a group of one, and where the device has no use for it.
  /// Collective, with as many bytes on every rank.
  std::shared_ptr<DeviceMemory> reduce_memory(std::size_t bytes) const;
  static std::size_t reduce_memory_bytes(std::size_t shard_bytes, int group_size);

  /// Another handle of the same group: what lives longer than this object and needs the group.
  Communicator same() const;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& name() const;
  Waiting waiting() const;
  HostWaits* waits() const;

  /// In place: each of `whole` (N·R, ...) has this rank's rows at [rank·R, (rank+1)·R) and receives
  /// the others'. One grouped call; any dtype. Where `own`, if it is given, has a tensor (R, ...) that is
  /// not empty, this rank's rows lie there and are received too; it must stay as it is until waited for.
  [[nodiscard]] Request all_gather_in_place(std::span<const tensor::Tensor> whole,
                                            std::span<const tensor::Tensor> own = {}) const;

  /// One item of a grouped reduce-scatter: out (R, ...) = Σ over ranks of this rank's rows of
  /// whole (N·R, ...), and the addend last, if there is one. out may be those rows of whole, or the addend.
  /// whole may be overwritten.
  struct ReduceScatterItem {
    tensor::Tensor out, whole, addend = {};
  };
  /// fp32 or bf16. Both tensors must stay alive until waited for.
  [[nodiscard]] Request reduce_scatter(std::span<const ReduceScatterItem> items) const;

  enum class Reduce : std::uint8_t { sum, max };
  /// In place over all of `items` as one call; fp32 or bf16. The maximum of i32, too, as signed
  /// integers: of bit patterns of floats ≥ 0 that is the largest float, and NaN wins.
  [[nodiscard]] Request all_reduce(std::span<const tensor::Tensor> items, Reduce reduce) const;

  /// out (N·R, ...) gathered from every rank's in (R, ...); blocking.
  void all_gather(const tensor::Tensor& out, const tensor::Tensor& in) const;
  /// out (R, ...) of in (N·R, ...), and the addend; blocking.
  void reduce_scatter(const tensor::Tensor& out, const tensor::Tensor& in, const tensor::Tensor& addend = {}) const;

  /// Small host values, blocking (not recorded: they are control, not traffic).
  void all_reduce(std::span<double> values, Reduce reduce) const;
  void all_reduce(std::span<std::uint64_t> values, Reduce reduce) const;
  /// Every rank's values, concatenated in rank order, on every rank.
  std::vector<double> all_gather(std::span<const double> values) const;
  std::vector<std::string> all_gather(std::string_view value) const;
  void broadcast(std::string& value, int root) const;
  void barrier() const;

  /// Lets outstanding nonblocking collectives of this process advance; cheap, called between kernels.
  void progress() const;
  /// Has the log those calls on the device that are complete and waited for by now: called once a step, and
  /// where the host has waited for the compute stream before the log is read. Nothing on hosts.
  void record_device_calls() const;
  /// What comes from now on is like what came, and takes no longer: the limit of steps holds for waits, and a device
  /// makes ready for it.
  void first_step_over() const;

  /// Memory that this group holds to receive sums in: the most that was ever needed at once.
  std::size_t scratch_bytes() const;
  /// What one reduce-scatter of wholes of together `whole_bytes`, or one all-reduce of `bytes`, takes
  /// of it while under way; at most, for `items` tensors.
  static std::size_t reduce_scatter_scratch_bytes(std::size_t whole_bytes, int group_size, int items = 1);
  static std::size_t all_reduce_scratch_bytes(std::size_t bytes, int group_size, int items = 1);

  /// For this group and all that share its origin; must be the same on every rank. For tests.
  void set_limits(const Limits& limits);

 private:
  explicit Communicator(std::shared_ptr<Group> group);
  void make_device_group(DeviceLanes lanes);
  void require_shard(const tensor::Tensor& whole, const tensor::Tensor& shard) const;
  std::shared_ptr<Group> group_;
  int rank_ = 0, size_ = 1;
};

}  // namespace shard8::comm

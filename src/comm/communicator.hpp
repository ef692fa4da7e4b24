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

#include "comm/host_waits.hpp"
#include "comm/parts.hpp"
#include "comm/sum_order.hpp"
#include "profile/collective_log.hpp"
#include "profile/spread.hpp"
#include "tensor/operand.hpp"
#include "tensor/tensor.hpp"

namespace shard8::comm {

class Device;
class DeviceMemory;
class Group;
class HostWaits;
class PushMemory;
struct PeerPart;
struct Placement;

/// The sizes from which on a collective is done in another way, with the same result.
struct Limits {
  /// Longest message in bytes. A longer one is cut, because MPI counts are ints.
  std::size_t message_bytes = std::size_t{1} << 30;
  /// Largest group whose ranks send to each other directly. In a larger group the number of messages would be the
  /// cost, and the library's collectives move the data. all_to_all sends directly in groups of any size.
  int direct_ranks = 32;
};

/// On a device: the streams on which a group's collectives run. An operation that has no stream of its own runs on the
/// compute stream, in that stream's order, if the group has that lane.
struct DeviceLanes {
  bool compute = false;  ///< the compute stream: for what is waited for at once
  bool gather = false;   ///< all-gathers, all-to-alls and send_receives on a stream of their own
  bool reduce = false;   ///< reductions on another
  /// The streams of gathers and reductions are not those of groups without `apart`, so no exchange waits for the
  /// weights or gradients of a unit.
  bool apart = false;
  bool push = false;  ///< push() on the stream of gathers that are `apart`, else on the compute stream

  bool any() const { return compute || gather || reduce || push; }
};

/// How the clocks of two ranks differ (std::chrono::steady_clock).
struct ClockReading {
  std::int64_t local_ns = 0;       ///< when it was read, by the clock of this rank
  std::int64_t ahead_ns = 0;       ///< what to add to this rank's clock for that of rank 0
  std::int64_t round_trip_ns = 0;  ///< of the messages: ahead_ns is wrong by at most half of it
};

/// A group of ranks and its collectives. Tensors are in host memory and are communicated by MPI, or, once a device is
/// attached, in device memory and communicated by the device's library. Move-only; frees what it duplicated.
///
/// All ranks of the group must call the same collectives in the same order. All collectives are nonblocking underneath,
/// and wait as `waiting` says. In a group of one rank outputs are filled, and nothing is sent or recorded. Every status
/// is checked: Error(failed) with operation, group and rank.
///
/// On hosts, sums of fp32 and bf16 accumulate in fp32 in the group's order (bf16: one rounding at the end). The order
/// is that of ranks, or a tree if `split` was given SumOrder::tree; exchanges by parts always add in rank order. So a
/// result does not depend on message sizes or library algorithms, and is the same on every rank. On a device this holds
/// for reduce-scatters in gather_memory, which add in rank order, and for sums with reduce_memory and
/// all_reduce_memory. Other sums on a device have the library's order, which is the same on every rank and in every run
/// on the same machine. Such sums of bf16 are rounded after each addition, and in a maximum of floats by the library
/// NaN need not win.
///
/// On a device a collective sees what the compute stream was given before the call, and the host does not wait: see
/// Request. The lanes of the group choose the stream of each operation.
///
/// A grouped call of several dtypes is recorded once for each dtype, with the bytes of that dtype and its share of the
/// time by bytes.
class Communicator {
 public:
  /// Duplicates `comm`; `name` is what reports and errors call the group. `waits`, which may be null and must live
  /// longer than the communicator and all its splits, is told what this rank's host waits for. `limits` hold for all
  /// splits, too, and must be the same on every rank; message_bytes is at least 1 and at most the default.
  Communicator(MPI_Comm comm, std::string name, Waiting waiting, profile::CollectiveLog* log,
               HostWaits* waits = nullptr, const Limits& limits = {});
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  /// A group that is only planned: rank() and size() are its only functions.
  static Communicator on_paper(int rank, int size);

  /// A group for each color, of the ranks that gave it, ordered by key. Collective. No collective may be under way on
  /// any rank. `lanes` count where a device is attached. `order` is the order of the group's reduce_scatter and
  /// all_reduce. The constructor and on_paper give SumOrder::ranks.
  Communicator split(int color, int key, std::string name, DeviceLanes lanes = {},
                     SumOrder order = SumOrder::ranks) const;

  /// From now on tensors are in the memory of `device`, in this group and in its splits. Collective, before the first
  /// split. Small host values are still communicated by MPI.
  void attach(std::shared_ptr<Device> device, DeviceLanes lanes);
  /// Null on hosts.
  Device* device() const;
  /// Memory in which all_gather_in_place and all_gather_columns are fastest, and on the compute stream reduce_scatter
  /// of wholes that lie in it, too. Null on hosts and in a group of one. Collective, with the same bytes on every rank.
  /// Tensors of one call must lie at the same offsets on every rank.
  std::shared_ptr<DeviceMemory> gather_memory(std::size_t bytes) const;
  /// Memory with which reduce_scatter is fastest, as long as it is held. No tensor may lie in it. With less memory a
  /// call takes more turns; more than reduce_memory_bytes() for each item of a call does not help. Null on hosts, in a
  /// group of one, and where the device cannot use it. Collective, with the same bytes on every rank.
  std::shared_ptr<DeviceMemory> reduce_memory(std::size_t bytes) const;
  static std::size_t reduce_memory_bytes(std::size_t shard_bytes, int group_size);
  /// Memory with which all_reduce sums in the order SumOrder::tree, as long as it is held. No tensor may lie in it.
  /// With less memory a call takes more turns. Null on hosts, in groups of another order, and where
  /// all_reduce_memory_bytes() is 0. Then a sum has the library's order; of two ranks that is the tree. Collective,
  /// with the same bytes on every rank.
  std::shared_ptr<DeviceMemory> all_reduce_memory(std::size_t bytes) const;
  /// Enough for an all_reduce of `bytes` in one call to be as fast as with more.
  static std::size_t all_reduce_memory_bytes(std::size_t bytes, int group_size);

  /// On devices: memory through which all_to_all and send_receive of this group go, as long as it is held, where ranks
  /// can write to each other's memory; elsewhere NCCL moves them, and no memory is taken. The memory must hold what a
  /// rank gets from its peers in one call: of an all_to_all, group size − 1 times the most that a peer sends. A part
  /// that it cannot hold is an Error(failed). Null on hosts, in a group of one, and where ranks cannot write.
  /// Collective, with the same bytes on every rank; all ranks must free it together, before the communicator.
  std::shared_ptr<DeviceMemory> all_to_all_memory(std::size_t bytes) const;

  /// On devices: memory of this rank into which kernels of all ranks of the group write, for push(), where ranks can
  /// write to each other's memory. The bytes of the memory are 0 at first. Null on hosts, in a group of one, and where
  /// ranks cannot write; the lines of Device::describe() say why. Collective, with the same bytes on every rank; all
  /// ranks must free it together, before the communicator.
  std::shared_ptr<PushMemory> push_memory(std::size_t bytes) const;
  /// Whether push_memory() gives memory. Collective; groups may get different answers.
  bool can_push() const;

  /// Another handle of the same group, for an owner that lives longer than this object.
  Communicator same() const;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& name() const;
  SumOrder order() const;
  Waiting waiting() const;
  HostWaits* waits() const;  ///< as given to the constructor

  /// How a gather writes this rank's own part to its place in the whole, if the caller gave the part in other memory.
  enum class OwnPart : std::uint8_t {
    copied,   ///< by a copy within this rank's memory. On a device the copy needs multiprocessors: it waits for a
              ///< product
    returned  ///< by a copy from the first peer to which copy engines have pushed the part. The copy takes longer, but
              ///< needs no multiprocessors. Where parts are not pushed by copy engines, as `copied`
  };

  /// All-gather in place, as one grouped call. Each tensor of `whole` (N·R, ...), of any dtype, has this rank's rows at
  /// [rank·R, (rank+1)·R) and receives the other ranks' rows. `own` is empty or has one tensor for each of `whole`:
  /// where own[i] (R, ...) is not empty, this rank's rows lie there and are copied into whole[i]. The caller must not
  /// change own[i] until the request is complete; `own_part` says how it is copied. `label`, static text such as
  /// "fc1_dgrad", names the matrix product in the watchdog's words; it may be empty.
  [[nodiscard]] Request all_gather_in_place(std::span<const tensor::Tensor> whole,
                                            std::span<const tensor::Tensor> own = {}, std::string_view label = {},
                                            OwnPart own_part = OwnPart::copied) const;

  /// All-gather of a matrix by columns: whole (R, N·C) receives own (R, C) of each rank r at columns [r·C, (r+1)·C).
  /// Tokens that every rank has stored transposed are gathered so. `through` (N·R, C), in gather_memory as the whole,
  /// may be overwritten: ranks that cannot write to each other's memory gather there first. The caller must not change
  /// `own` and `through` until the request is complete. To be called on devices in a group of several ranks only;
  /// elsewhere Error(failed). `label` and `own_part`: see all_gather_in_place.
  [[nodiscard]] Request all_gather_columns(const tensor::Tensor& whole, const tensor::Tensor& own,
                                           const tensor::Tensor& through, std::string_view label = {},
                                           OwnPart own_part = OwnPart::copied) const;

  /// One item of a grouped reduce-scatter: out (R, ...) = Σ over ranks of this rank's rows of whole (N·R, ...), plus
  /// the addend (R, ...) if there is one, which is added last. out may be this rank's rows of whole, or the addend. The
  /// call may overwrite whole.
  struct ReduceScatterItem {
    tensor::Tensor out, whole, addend = {};
  };
  /// Tensors are fp32 or bf16. The tensors must live until the request is complete. `label`: see all_gather_in_place.
  [[nodiscard]] Request reduce_scatter(std::span<const ReduceScatterItem> items, std::string_view label = {}) const;

  /// As reduce_scatter of one item without an addend, but the sum may be left to whoever reads it. `partial_sums`
  /// become item.out, which then receives the sum. Or, in SumOrder::ranks, with reduce_memory that holds the parts of
  /// all ranks, and as many ranks as tensor::PartialSums can have, they become every rank's partial sum of this rank's
  /// rows, in rank order, and item.out is not written. Once the request is complete, the compute stream may read the
  /// partial sums until it is given the group's next reduce-scatter. The caller must not change item.whole before it
  /// has read them. Error(failed) with an addend.
  [[nodiscard]] Request reduce_scatter_partial_sums(const ReduceScatterItem& item, tensor::PartialSums& partial_sums,
                                                    std::string_view label = {}) const;

  /// One item of a grouped all-to-all. `in` (S, ...) has, in rank order, send_rows[r] rows for each rank r. `out`
  /// (R, ...) receives, in rank order, receive_rows[r] rows of each rank r. This rank's own rows are copied. Rows
  /// behind these stay unused. in and out have the same dtype and the same shape of a row, and do not overlap.
  struct AllToAllItem {
    tensor::Tensor out, in;
    std::span<const std::int64_t> receive_rows, send_rows;  ///< one count for each rank; read during the call only
  };
  /// All-to-all with counts for each peer, which may be 0, as one grouped call of tensors of any dtype. The caller must
  /// not change `in` or read `out` until the request is complete. What rank a sends to rank b must be what b receives
  /// from a, in every item. On hosts the receiver checks this, item by item: Error(failed) of Request::wait with both
  /// numbers. On devices nobody does: the call may not end, or rows in `out` may be wrong. `label`: see
  /// all_gather_in_place.
  [[nodiscard]] Request all_to_all(std::span<const AllToAllItem> items, std::string_view label = {}) const;

  /// Whether a push() waits until all ranks have read what was pushed before.
  enum class PeersRead : std::uint8_t {
    waited_for,  ///< push() waits until the streams of all ranks have come to this call
    known        ///< push() does not wait. Allowed if, on every rank, a push of this memory ended after the rank last
           ///< used the bytes that are now written. The condition holds where dispatch and combine write to different
           ///< bytes in turns, and combine's write() is the last to read what was dispatched; and where several pushes
           ///< write to different bytes and the first of them has waited
  };
  /// An all-to-all whose kernels the caller launches: the kernels write to the memory of all ranks, so they alone know
  /// how many rows go where, and no host waits. In the order of the memory's stream (PushMemory::stream) the call waits
  /// for the other ranks as `peers_read` says, write() launches kernels on that stream, and the call waits until the
  /// kernels of all ranks are complete. What the compute stream was given before comes before all this. What the
  /// compute stream is given after the request's wait() sees what all ranks have written to this rank's memory. Kernels
  /// write to the memory of rank r at memory.of(r), this rank's included. `sent` are tensors of the bytes that the call
  /// is recorded with, as Collective::all_to_all; the host knows only what is sent on average, or at most. The data of
  /// `sent` are not used. `label`: see all_gather_in_place. An exception of write() ends the job: other ranks wait. On
  /// hosts and in a group of one Error(failed).
  template <class Write>
  [[nodiscard]] Request push(PushMemory& memory, std::span<const tensor::Tensor> sent, std::string_view label,
                             const Write& write, PeersRead peers_read = PeersRead::waited_for) const {
    begin_push(memory, sent, label, peers_read);
    write();
    return end_push();
  }

  struct SendReceiveItem {
    tensor::Tensor out, in;
  };
  /// Sends each item's `in` to rank (rank + distance) mod N and receives `out`, of the same dtype, from rank
  /// (rank − distance) mod N, as one grouped call. So distance 1 passes tensors round a ring, and distance −1 the other
  /// way. All ranks give the same distance. `out` may have another size than `in`: that of the `in` of its sender,
  /// which is checked as by all_to_all. in and out do not overlap. Requests and `label` as there.
  [[nodiscard]] Request send_receive(std::span<const SendReceiveItem> items, int distance,
                                     std::string_view label = {}) const;

  /// As all_gather_in_place, with parts that are waited for one by one. own[i] (R, ...) is given for every tensor, and
  /// may be rows of whole[i]. The caller must not change own[i] before GatherParts::finish. Through parts_memory the
  /// wholes are not written and may have no memory; otherwise they receive the rows of all ranks. `own_too` false: the
  /// caller reads only parts, so a device need not copy this rank's rows into the wholes. `label`, static text such as
  /// "fc1_fprop", names the matrix product in errors and in the watchdog's words. Error(failed) for a ring on a device.
  [[nodiscard]] GatherParts all_gather_parts(std::span<const tensor::Tensor> whole, std::span<const tensor::Tensor> own,
                                             std::string_view label, Route route = Route::direct,
                                             bool own_too = true) const;
  /// As reduce_scatter of one item, with partial sums that are given rank by rank. The function is called before the
  /// whole is written: ScatterParts::whole says where. The direct route gives the bytes of reduce_scatter; through
  /// parts_memory item.whole may have no memory. A ring adds the rows for rank r in the order r − 1, r − 2, …, r + 1, r
  /// (modulo the ranks), in fp32, then the addend; bf16 is rounded once. `label` and errors as for all_gather_parts.
  [[nodiscard]] ScatterParts reduce_scatter_parts(const ReduceScatterItem& item, std::string_view label,
                                                  Route route = Route::direct) const;

  /// On hosts: memory through which all_gather_parts and reduce_scatter_parts of this group go directly while it is
  /// held. A rank
  /// reads its peers' rows in place. `gather_bytes` are for the own rows of all tensors of one all_gather_parts, each
  /// rounded up by tensor::aligned. `scatter_bytes` are for the whole of one reduce_scatter_parts. With 0 bytes these
  /// exchanges go by messages; with too few they are an Error(failed). Two gathers may be under way at a time, and one
  /// scatter; more are an Error(failed). Null, with the reason in `problem` if it is given, where the group has one
  /// rank, spans nodes, or cannot have the memory, and on devices: then the exchanges go by messages, or as the device
  /// moves them. Collective, with the same bytes on every rank.
  std::shared_ptr<PartsMemory> parts_memory(std::size_t gather_bytes, std::size_t scatter_bytes,
                                            std::string* problem = nullptr) const;
  /// PartsMemory::bytes() of such memory in a group of `group_size` ranks.
  static std::size_t parts_memory_bytes(std::size_t gather_bytes, std::size_t scatter_bytes, int group_size);
  /// How the group's exchanges by parts will move rows, if its owner takes parts_memory(gather_bytes, scatter_bytes) on
  /// hosts, or gather_memory and reduce_memory on a device: "memory that ranks share", "messages, because …", "memory
  /// of peers" or "NCCL, because …"; "none" in a group of one rank. Equal circumstances give equal words. The function
  /// takes the memory, on a device a small piece of it, and gives it back. Collective, with the same bytes on every
  /// rank, while nobody holds parts_memory of the group.
  std::string parts_transport(std::size_t gather_bytes, std::size_t scatter_bytes) const;
  /// Where the ranks of this group run. Ranks are on one node if MPI says that they can share memory and, once a device
  /// is attached, if they have the same device_node_identity(), too. Collective. No collective may be under way.
  Placement placement() const;

  enum class Reduce : std::uint8_t { sum, max };
  /// All-reduce in place of all `items`, as one grouped call. Tensors are fp32 or bf16; a maximum takes i32, too, as
  /// signed integers. The maximum of the bit patterns of floats >= 0 is the largest float, and NaN wins.
  [[nodiscard]] Request all_reduce(std::span<const tensor::Tensor> items, Reduce reduce) const;

  /// out (N·R, ...) = every rank's in (R, ...), in rank order. Blocks.
  void all_gather(const tensor::Tensor& out, const tensor::Tensor& in) const;
  /// out (R, ...) = Σ over ranks of this rank's rows of in (N·R, ...), plus the addend. Blocks.
  void reduce_scatter(const tensor::Tensor& out, const tensor::Tensor& in, const tensor::Tensor& addend = {}) const;

  /// Reduces small host values, in place. Blocks. The call is not recorded: the values are control, not traffic.
  void all_reduce(std::span<double> values, Reduce reduce) const;
  void all_reduce(std::span<std::uint64_t> values, Reduce reduce) const;
  /// Every rank's values, concatenated in rank order, on every rank.
  std::vector<double> all_gather(std::span<const double> values) const;
  std::vector<std::string> all_gather(std::string_view value) const;
  void broadcast(std::string& value, int root) const;
  /// Each value over all ranks, on every rank. A reduction: takes memory and time of the values, and of the logarithm
  /// of the ranks.
  std::vector<profile::OverRanks> over_ranks(std::span<const double> values) const;
  /// As all_gather, on rank `root` alone; other ranks get nothing.
  std::vector<double> gather(std::span<const double> values, int root) const;
  std::vector<std::string> gather(std::string_view value, int root) const;
  void barrier() const;
  /// Compares this rank's clock with that of rank 0, by messages to and fro. Collective. No collective may be under
  /// way.
  ClockReading compare_clocks() const;

  /// Advances the collectives of this process that are under way. The call is cheap and is to be made between kernels.
  void progress() const;
  /// Records the calls on the device that are complete and that the compute stream has waited for. Call it once a step,
  /// and before the log is read, when the host has waited for the compute stream. Does nothing on hosts.
  void record_device_calls() const;
  /// On a device: from now on traced calls are timed. Waits for the compute stream. Does nothing on hosts.
  void set_trace_origin() const;
  /// Says that all steps from now on are like the first one. The limit of steps holds for waits, and a device allocates
  /// what later steps could need.
  void first_step_over() const;

  /// Bytes that this group holds to receive parts of sums: the most that were ever needed at once.
  std::size_t scratch_bytes() const;
  /// The most of scratch_bytes() that one reduce-scatter of `items` tensors takes, whose wholes have `whole_bytes`
  /// together, or one all-reduce of `bytes`.
  static std::size_t reduce_scatter_scratch_bytes(std::size_t whole_bytes, int group_size, int items = 1);
  /// The most of scratch_bytes() that one reduce_scatter_parts round a ring takes. A gather takes none.
  static std::size_t ring_scratch_bytes(std::size_t whole_bytes, int group_size, tensor::DType dtype);
  static std::size_t all_reduce_scratch_bytes(std::size_t bytes, int group_size, int items = 1);

 private:
  Communicator() = default;
  explicit Communicator(std::shared_ptr<Group> group);
  void make_device_group(DeviceLanes lanes);
  void require_shard(const tensor::Tensor& whole, const tensor::Tensor& shard) const;
  Request exchange(profile::Collective op, std::span<const tensor::Tensor> sent, std::span<const PeerPart> parts,
                   std::string_view label) const;
  void begin_push(PushMemory& memory, std::span<const tensor::Tensor> sent, std::string_view label,
                  PeersRead peers_read) const;
  Request end_push() const;
  std::shared_ptr<Group> group_;
  int rank_ = 0, size_ = 1;
};

}  // namespace shard8::comm

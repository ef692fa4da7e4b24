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

#include "comm/limits.hpp"
#include "comm/request.hpp"
#include "comm/waiting.hpp"
#include "profile/collective_log.hpp"
#include "tensor/tensor.hpp"

namespace shard8::comm {

class Group;

/// A group of ranks and its collectives on host memory. Move-only; frees what it duplicated. Every
/// collective must be called by all ranks of the group in the same order. All are nonblocking
/// underneath and wait as `waiting` says. A group of one does nothing and records nothing (outputs
/// are still filled). Every MPI status is checked (Error(failed) with operation, group and rank).
///
/// Sums of fp32 and bf16 accumulate in fp32 in rank order (bf16: one rounding at the end), so a
/// result depends on neither message sizes nor library algorithms, and is the same on every rank.
/// A grouped call of several dtypes is logged once under each, with that dtype's bytes and its share
/// of the time by bytes.
class Communicator {
 public:
  /// Duplicates `comm`; `name` is what reports and errors call the group.
  Communicator(MPI_Comm comm, std::string name, Waiting waiting, profile::CollectiveLog* log);
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  /// Ranks of equal color, ordered by key. No collective may be under way on any rank.
  Communicator split(int color, int key, std::string name) const;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& name() const;
  Waiting waiting() const;

  /// In place: each of `whole` (N·R, ...) has this rank's rows at [rank·R, (rank+1)·R) and receives
  /// the others'. One grouped call; any dtype.
  [[nodiscard]] Request all_gather_in_place(std::span<const tensor::Tensor> whole) const;

  /// One item of a grouped reduce-scatter: out (R, ...) = Σ over ranks of this rank's rows of
  /// whole (N·R, ...). out may be those rows of whole. whole may be overwritten.
  struct ReduceScatterItem {
    tensor::Tensor out, whole;
  };
  /// fp32 or bf16. Both tensors must stay alive until waited for.
  [[nodiscard]] Request reduce_scatter(std::span<const ReduceScatterItem> items) const;

  enum class Reduce : std::uint8_t { sum, max };
  /// In place over all of `items` as one call; fp32 or bf16. The maximum of i32, too, as signed
  /// integers: of bit patterns of floats ≥ 0 that is the largest float, and NaN wins.
  [[nodiscard]] Request all_reduce(std::span<const tensor::Tensor> items, Reduce reduce) const;

  /// out (N·R, ...) gathered from every rank's in (R, ...); blocking.
  void all_gather(const tensor::Tensor& out, const tensor::Tensor& in) const;
  /// out (R, ...) of in (N·R, ...); blocking.
  void reduce_scatter(const tensor::Tensor& out, const tensor::Tensor& in) const;

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
  std::shared_ptr<Group> group_;
  int rank_ = 0, size_ = 1;
};

}  // namespace shard8::comm

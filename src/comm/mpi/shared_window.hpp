// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "comm/communicator.hpp"
#include "comm/parts.hpp"
#include "comm/peer/addresses.hpp"
#include "tensor/alignment.hpp"

namespace shard8::comm {

/// Whether a number that grows, and begins again at 0 after 2^32 − 1, has come to `wanted`. The two are less than 2^31
/// apart.
constexpr bool reached(std::uint32_t number, std::uint32_t wanted) {
  return static_cast<std::int32_t>(number - wanted) >= 0;
}

/// Memory of the ranks of a group on one node: an MPI shared-memory window. Each rank has two slots for its rows of
/// gathers, used in turn, and one slot for its partial sums. Exchanges have numbers, which grow from 1. A rank tells
/// its peers by numbers in its own memory, which the peers read:
///
/// - gathered: the last gather whose rows are in this rank's slot.
/// - read: the last gather whose slots this rank does not read any more. A rank writes the rows of gather n when all
///   peers have told it that they have read n − 2.
/// - given[r]: the last scatter whose partial sums for rank r are in this rank's slot.
/// - summed: the last scatter whose partial sums this rank has read. A rank writes the partial sums of scatter n when
///   all peers have told it that they have summed n − 1.
class SharedWindow final : public PartsMemory, public peer::PeerAddresses {
 public:
  /// Collective, with the same bytes on every rank: see Communicator::parts_memory. Throws AgreedError(environment)
  /// with the reason where the group cannot have the memory.
  SharedWindow(const Communicator& group, MPI_Comm comm, std::size_t gather_bytes, std::size_t scatter_bytes);
  ~SharedWindow() override;

  static std::size_t bytes_of(std::size_t gather_bytes, std::size_t scatter_bytes, int ranks);
  std::size_t bytes() const override { return PeerAddresses::bytes(); }
  bool gathers() const { return gather_bytes_ > 0; }
  bool scatters() const { return scatter_bytes_ > 0; }

  /// The number of the next gather, whose own rows take `bytes` bytes. Throws Error(failed) when they do not fit or two
  /// gathers are under way.
  std::uint32_t begin_gather(std::size_t bytes, std::string_view label);
  /// The first peer that has not read what this rank's slot of the gather held before, if one has not.
  std::optional<int> before_write(std::uint32_t gather) const { return awaited(kRead, gather - 2); }
  /// Whether this rank has written its slots of all gathers before this one: they are written in their order.
  bool is_next(std::uint32_t gather) const { return written_ + 1 == gather; }
  /// The slot of `rank` for the rows of the gather.
  std::byte* rows(int rank, std::uint32_t gather) const;
  /// This rank has written its slot.
  void publish(std::uint32_t gather);
  /// Whether `rank` has written its slot.
  bool published(int rank, std::uint32_t gather) const { return reached(load(rank, kGathered), gather); }
  /// This rank reads no slot of the gather any more.
  void finish_gather(std::uint32_t gather);

  /// The number of the next scatter, whose whole takes `bytes` bytes. Throws Error(failed) when it does not fit or one
  /// is under way.
  std::uint32_t begin_scatter(std::size_t bytes, std::string_view label);
  /// The first peer that has not read this rank's partial sums of the scatter before, if one has not.
  std::optional<int> before_partial_sums(std::uint32_t scatter) const { return awaited(kSummed, scatter - 1); }
  /// The slot of `rank` for its partial sums.
  std::byte* partial_sums(int rank) const;
  /// This rank has written its partial sums for rank `to`.
  void give(int to, std::uint32_t scatter) { store(kGiven + to, scatter); }
  /// Whether `rank` has written its partial sums for this rank.
  bool given(int from, std::uint32_t scatter) const { return reached(load(from, kGiven + rank()), scatter); }
  /// This rank reads no partial sums of the scatter any more.
  void finish_scatter(std::uint32_t scatter) { store(kSummed, scatter); }

  /// For tests: from now on a slot is overwritten before it is used again, so that whoever still reads it reads
  /// rubbish.
  void poison() { poison_ = true; }
  void spoil(std::byte* slot, std::size_t bytes) const;

 private:
  /// The words of a rank, each in a cache line of its own.
  enum Word { kGathered, kRead, kSummed, kGiven };
  static constexpr std::size_t kLine = 64;
  static std::size_t words_bytes(int ranks);
  std::optional<int> awaited(Word word, std::uint32_t number) const;
  std::uint32_t load(int rank, int word) const;
  void store(int word, std::uint32_t number);
  /// Bytes that MPI allocates, which it need not align.
  std::size_t allocated_bytes() const { return bytes() + tensor::kAlignment; }
  int allocate(MPI_Comm comm);
  void require_window(int status) const;
  void clear() const;
  void query();

  Communicator group_;
  std::size_t gather_bytes_, scatter_bytes_;
  MPI_Win window_ = MPI_WIN_NULL;
  std::byte* allocated_ = nullptr;
  std::uint32_t begun_ = 0, written_ = 0, read_ = 0;  ///< numbers of this rank's gathers
  std::array<bool, 2> open_{};                        ///< of each slot: its gather is under way
  std::uint32_t scatter_ = 0;                         ///< number of the last scatter
  bool poison_ = false;
};

}  // namespace shard8::comm

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace shard8::comm::peer {

/// The largest group whose ranks address each other's memory: the ranks of a node.
inline constexpr int kMostRanks = 16;

/// Memory of every rank of a group, of the same size on every rank, at addresses by which this rank reads and writes
/// it. An address of one rank is not an address of another rank: the same memory may be mapped elsewhere there.
///
/// This class holds addresses that the caller gives; the caller keeps the memory allocated. IpcBlock allocates and maps
/// device memory of a group, SharedWindow host memory. A test can play several ranks in one process, with one object
/// for each rank.
class PeerAddresses {
 public:
  /// base[r] is the memory of rank r, of `bytes` bytes; `rank` is this rank.
  PeerAddresses(int rank, std::vector<std::byte*> base, std::size_t bytes)
      : rank_(rank), base_(std::move(base)), bytes_(bytes) {}
  virtual ~PeerAddresses() = default;
  PeerAddresses(const PeerAddresses&) = delete;
  PeerAddresses& operator=(const PeerAddresses&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(base_.size()); }
  std::size_t bytes() const { return bytes_; }
  std::byte* of(int rank) const { return base_[static_cast<std::size_t>(rank)]; }
  std::byte* own() const { return of(rank_); }

 protected:
  int rank_;
  std::vector<std::byte*> base_;
  std::size_t bytes_;
};

}  // namespace shard8::comm::peer

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
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

/// Lets kernels of the ranks of a group, one on each rank, begin together and end together. Each rank has two words in
/// its memory for each other rank: the number of the exchange that the other rank has begun, and that it has done.
struct Handshake {
  enum Word { ready, done };
  std::uint32_t* words[kMostRanks] = {};  ///< of each rank, as mapped here: [Word][rank that writes it]
  unsigned* arrived = nullptr;            ///< on this rank: thread blocks that have ended; 0 between kernels
  int rank = 0, size = 1;
  std::uint32_t number = 0;  ///< number of the exchange, cyclic
};

/// Which kernel of an exchange on one rank this is, in stream order: the first one begins the exchange, the last one
/// ends it.
struct Turn {
  bool first = true, last = true;
};

#if defined(__CUDACC__)

/// Tells the other ranks that this rank has come to `word`, with all that its stream did before. The first `size`
/// threads of one block call it.
__device__ __forceinline__ void tell(const Handshake& h, Handshake::Word word) {
  const int r = static_cast<int>(threadIdx.x);
  if (r >= h.size || r == h.rank) return;
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(h.words[r] + word * h.size + h.rank), "r"(h.number)
               : "memory");
}

/// Returns when every other rank has told this rank. All threads of a block call it.
__device__ __forceinline__ void await(const Handshake& h, Handshake::Word word) {
  const int r = static_cast<int>(threadIdx.x);
  if (r < h.size && r != h.rank) {
    const std::uint32_t* const from = h.words[h.rank] + word * h.size + r;
    std::uint32_t number;
    do {
      asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(number) : "l"(from) : "memory");
    } while (static_cast<std::int32_t>(number - h.number) < 0);
  }
  __syncthreads();
}

/// Returns when all ranks have begun. Then all that their streams did before is visible. All threads call it.
__device__ __forceinline__ void begin(const Handshake& h) {
  if (blockIdx.x == 0) tell(h, Handshake::ready);
  await(h, Handshake::ready);
}

/// Lets the kernel end only when the kernels of all ranks have come to this call. All threads call it last.
__device__ __forceinline__ void end(const Handshake& h) {
  __shared__ bool is_last;
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicAdd(h.arrived, 1u) == gridDim.x - 1;
  __syncthreads();
  if (!is_last) return;
  __threadfence_system();
  if (threadIdx.x == 0) *h.arrived = 0;
  tell(h, Handshake::done);
  await(h, Handshake::done);
}

#endif

}  // namespace shard8::comm::peer

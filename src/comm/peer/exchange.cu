// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/peer/sum_parts.hpp"

#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>

#include "base/error.hpp"
#include "tensor/cuda/device.hpp"

namespace shard8::comm::peer {
namespace {

using Destinations = ExchangeKernels::Destinations;

// One block a multiprocessor, and enough bytes under way for NVLink on half of those of an H200.
constexpr int kThreads = 512;
constexpr int kCopied = 8;  ///< 16-byte loads that a thread has under way
/// 16-byte loads of each of `parts` parts that a thread has under way, as many as registers allow.
constexpr int summed(int parts) { return parts == 0 ? 1 : std::clamp(10 / parts, 1, 4); }
template <int kParts>
constexpr int kSummed = summed(kParts);

/// kCopies of each of `vectors` vectors, and of the bytes behind them; to.count copies where it is 0.
template <int kCopies>
__global__ void __launch_bounds__(kThreads) copy_to_peers(Handshake handshake, Turn turn, const std::byte* from,
                                                          std::int64_t vectors, std::int64_t bytes, Destinations to) {
  if (turn.first) begin(handshake);
  const int n = kCopies > 0 ? kCopies : to.count;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads * kCopied;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads * kCopied + threadIdx.x; i < vectors;
       i += stride) {
    uint4 v[kCopied];
#pragma unroll
    for (int u = 0; u < kCopied; ++u)
      if (i + u * kThreads < vectors) v[u] = __ldcs(reinterpret_cast<const uint4*>(from) + i + u * kThreads);
#pragma unroll
    for (int c = 0; c < n; ++c) {
#pragma unroll
      for (int u = 0; u < kCopied; ++u)
        if (i + u * kThreads < vectors) reinterpret_cast<uint4*>(to.data[c])[i + u * kThreads] = v[u];
    }
  }
  const std::int64_t rest = vectors * 16 + static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (std::int64_t i = rest; i < bytes; i += static_cast<std::int64_t>(gridDim.x) * kThreads)
    for (int c = 0; c < n; ++c) to.data[c][i] = from[i];
  if (turn.last) end(handshake);
}

/// kCopies of `count` elements, in rows of `width` elements that begin `pitch` elements apart; to.count copies where it
/// is 0. V is 16 bytes, or one.
template <class V, int kCopies>
__global__ void __launch_bounds__(kThreads)
    copy_rows_to_peers(Handshake handshake, const V* from, std::uint32_t count, std::uint32_t width,
                       std::uint32_t pitch, Destinations to) {
  begin(handshake);
  const int n = kCopies > 0 ? kCopies : to.count;
  const std::uint32_t stride = gridDim.x * kThreads * kCopied;
  for (std::uint32_t i = blockIdx.x * kThreads * kCopied + threadIdx.x; i < count; i += stride) {
    V v[kCopied];
    std::size_t place[kCopied];
#pragma unroll
    for (int u = 0; u < kCopied; ++u) {
      const std::uint32_t at = i + u * kThreads;
      if (at >= count) continue;
      v[u] = __ldcs(from + at);
      place[u] = static_cast<std::size_t>(at / width) * pitch + at % width;
    }
#pragma unroll
    for (int c = 0; c < n; ++c) {
#pragma unroll
      for (int u = 0; u < kCopied; ++u)
        if (i + u * kThreads < count) reinterpret_cast<V*>(to.data[c])[place[u]] = v[u];
    }
  }
  end(handshake);
}

template <class T, int kParts>
__global__ void __launch_bounds__(kThreads)
    sum_of_peers(Handshake handshake, Turn turn, T* out, Parts parts, std::int64_t vectors, std::int64_t count) {
  if (turn.first) begin(handshake);
  // Ranks and blocks begin with different ranks, so that not all of them read one rank at once.
  const int start = (handshake.rank + static_cast<int>(blockIdx.x)) % (kParts > 0 ? kParts : 1);
  constexpr int kVectors = kSummed<kParts>;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads * kVectors;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads * kVectors + threadIdx.x; i < vectors;
       i += stride)
    sum_vectors<T, kParts, kVectors>(out, parts, start, i, kThreads, vectors);
  const std::int64_t rest = vectors * Vector<T>::kN + static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (std::int64_t i = rest; i < count; i += static_cast<std::int64_t>(gridDim.x) * kThreads)
    sum_element(out, parts, i);
  if (turn.last) end(handshake);
}

/// Stores of kernels before this one are complete, but perhaps not visible to other devices; the fence makes them so.
__global__ void meet_peers(Handshake handshake, bool ready, bool done) {
  __threadfence_system();
  if (ready) tell(handshake, Handshake::ready);
  if (done) tell(handshake, Handshake::done);
  await(handshake, done ? Handshake::done : Handshake::ready);
}

/// As many blocks as there is work for. Without work one block, because ranks tell each other all the same.
unsigned grid(std::int64_t vectors, int of_thread, std::int64_t rest, int most) {
  const std::int64_t of_block = static_cast<std::int64_t>(kThreads) * of_thread;
  const std::int64_t work = std::max((vectors + of_block - 1) / of_block, (rest + kThreads - 1) / kThreads);
  return static_cast<unsigned>(std::clamp<std::int64_t>(work, 1, most));
}

template <class F>
auto for_copy_count(int copies, const F& of) {
  return for_count<1, 2, 3, 4>(copies, of);
}

template <class V>
void copy_rows_of(const ExchangeKernels& on, const Handshake& handshake, const std::byte* from, std::size_t rows,
                  std::size_t width, std::size_t pitch, const Destinations& to) {
  // An index may be past the end by what all threads copy in one turn.
  const std::size_t count = rows * width / sizeof(V);
  SHARD8_REQUIRE(count < std::size_t{1} << 31, "{} rows of {} bytes are too many for one kernel", rows, width);
  const auto kernel = for_copy_count(to.count, [](auto n) { return &copy_rows_to_peers<V, decltype(n)::value>; });
  kernel<<<grid(static_cast<std::int64_t>(count), kCopied, 0, on.blocks), kThreads, 0, on.stream>>>(
      handshake, reinterpret_cast<const V*>(from), static_cast<std::uint32_t>(count),
      static_cast<std::uint32_t>(width / sizeof(V)), static_cast<std::uint32_t>(pitch / sizeof(V)), to);
  SHARD8_CUDA_CHECK_LAUNCH("copy_rows_to_peers");
}

template <class T>
void sum_all(const ExchangeKernels& on, const Handshake& handshake, Turn turn, T* out, std::int64_t count,
             const Parts& parts) {
  const std::int64_t vectors = whole_vectors(out, parts, count);
  const auto kernel = for_part_count(parts.count, [](auto n) { return &sum_of_peers<T, decltype(n)::value>; });
  const unsigned blocks = grid(vectors, summed(parts.count), count - vectors * Vector<T>::kN, on.blocks);
  kernel<<<blocks, kThreads, 0, on.stream>>>(handshake, turn, out, parts, vectors, count);
  SHARD8_CUDA_CHECK_LAUNCH("sum_of_peers");
}

}  // namespace

void ExchangeKernels::copy(const Handshake& handshake, Turn turn, const std::byte* from, std::size_t bytes,
                           const Destinations& to) const {
  auto all = reinterpret_cast<std::uintptr_t>(from);
  for (int c = 0; c < to.count; ++c) all |= reinterpret_cast<std::uintptr_t>(to.data[c]);
  const auto size = static_cast<std::int64_t>(bytes);
  const std::int64_t vectors = all % 16 == 0 ? size / 16 : 0;
  const auto kernel = for_copy_count(to.count, [](auto n) { return &copy_to_peers<decltype(n)::value>; });
  kernel<<<grid(vectors, kCopied, size - vectors * 16, blocks), kThreads, 0, stream>>>(handshake, turn, from, vectors,
                                                                                       size, to);
  SHARD8_CUDA_CHECK_LAUNCH("copy_to_peers");
}

void ExchangeKernels::meet(const Handshake& handshake, Meeting meeting) const {
  static_assert(kMostRanks <= 32);
  meet_peers<<<1, 32, 0, stream>>>(handshake, meeting != Meeting::done, meeting != Meeting::ready);
  SHARD8_CUDA_CHECK_LAUNCH("meet_peers");
}

void ExchangeKernels::copy_rows(const Handshake& handshake, const std::byte* from, std::size_t rows, std::size_t width,
                                std::size_t pitch, const Destinations& to) const {
  auto all = reinterpret_cast<std::uintptr_t>(from) | width | pitch;
  for (int c = 0; c < to.count; ++c) all |= reinterpret_cast<std::uintptr_t>(to.data[c]);
  if (all % sizeof(uint4) == 0)
    copy_rows_of<uint4>(*this, handshake, from, rows, width, pitch, to);
  else
    copy_rows_of<unsigned char>(*this, handshake, from, rows, width, pitch, to);
}

void ExchangeKernels::sum(const Handshake& handshake, Turn turn, void* out, tensor::DType dtype, std::int64_t count,
                          const Parts& parts) const {
  if (dtype == tensor::DType::bf16) {
    sum_all(*this, handshake, turn, static_cast<__nv_bfloat16*>(out), count, parts);
  } else {
    sum_all(*this, handshake, turn, static_cast<float*>(out), count, parts);
  }
}

namespace {

constexpr int kVectors = 2;  ///< 16-byte loads of each part that a thread has under way

template <class T, SumOrder kOrder, int kParts>
__global__ void __launch_bounds__(kThreads) sum_all_vectors(T* out, Parts parts, std::int64_t vectors) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads * kVectors + threadIdx.x;
  sum_vectors<T, kParts, kVectors, kOrder>(out, parts, 0, first, kThreads, vectors);
}

/// The sums of the elements from `first` on, one by one.
template <class T, SumOrder kOrder>
__global__ void __launch_bounds__(kThreads) sum_elements(T* out, Parts parts, std::int64_t first, std::int64_t count) {
  const std::int64_t i = first + static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) sum_element<T, kOrder>(out, parts, i);
}

unsigned blocks_of(std::int64_t work, std::int64_t of_block) {
  return static_cast<unsigned>((work + of_block - 1) / of_block);
}

template <SumOrder kOrder, class T>
void sum_in(cudaStream_t stream, T* out, const Parts& parts, std::int64_t count) {
  const std::int64_t vectors = whole_vectors(out, parts, count);
  if (vectors > 0) {
    const int own = kOrder == SumOrder::tree && parts.has_addend ? 0 : parts.count;
    const auto kernel = for_part_count(own, [](auto n) { return &sum_all_vectors<T, kOrder, decltype(n)::value>; });
    kernel<<<blocks_of(vectors, kThreads * kVectors), kThreads, 0, stream>>>(out, parts, vectors);
    SHARD8_CUDA_CHECK_LAUNCH("sum_parts");
  }
  const std::int64_t first = vectors * Vector<T>::kN;
  if (first == count) return;
  sum_elements<T, kOrder><<<blocks_of(count - first, kThreads), kThreads, 0, stream>>>(out, parts, first, count);
  SHARD8_CUDA_CHECK_LAUNCH("sum_parts");
}

template <class T>
void sum(cudaStream_t stream, T* out, const Parts& parts, std::int64_t count) {
  if (parts.order == SumOrder::tree)
    sum_in<SumOrder::tree>(stream, out, parts, count);
  else
    sum_in<SumOrder::ranks>(stream, out, parts, count);
}

}  // namespace

void sum_parts(cudaStream_t stream, void* out, tensor::DType dtype, std::int64_t count, const Parts& parts) {
  if (count == 0) return;
  if (dtype == tensor::DType::bf16) {
    sum(stream, static_cast<__nv_bfloat16*>(out), parts, count);
  } else {
    sum(stream, static_cast<float*>(out), parts, count);
  }
}

}  // namespace shard8::comm::peer

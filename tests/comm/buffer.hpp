// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "tensor/tensor.hpp"

namespace shard8::comm::tests {

/// Reproducible, in [-2, 2], of several magnitudes, so that the order of a sum shows. Made without
/// rounding, so that a compiler's fused multiply-add of it changes nothing.
inline float value(int rank, std::int64_t i, int salt = 0) {
  auto x = static_cast<std::uint64_t>(rank + 1) * 0x9e3779b97f4a7c15u +
           static_cast<std::uint64_t>(i) * 0xbf58476d1ce4e5b9u + static_cast<std::uint64_t>(salt) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  x *= 0xd6e8feb86659fd93u;
  x ^= x >> 32;
  const auto digits = static_cast<float>(static_cast<std::int64_t>(x % 8388609u) - 4194304);
  return std::ldexp(digits, -21 - static_cast<int>(x >> 48) % 8);
}

/// Memory of a tensor.
class Buffer {
 public:
  Buffer(const tensor::Shape& shape, tensor::DType dtype)
      : shape_(shape),
        dtype_(dtype),
        bytes_(static_cast<std::size_t>(shape.count()) * size_of(dtype), std::byte{0xee}) {}

  /// value(rank, i, salt) for every element; integers by truncation.
  void fill(int rank, int salt = 0, std::int64_t first = 0) {
    for (std::int64_t i = 0; i < shape_.count(); ++i) set(i, value(rank, first + i, salt));
  }
  void set(std::int64_t i, float x) {
    std::byte* const at = bytes_.data() + static_cast<std::size_t>(i) * size_of(dtype_);
    const auto store = [at](auto v) { std::memcpy(at, &v, sizeof v); };
    switch (dtype_) {
      case tensor::DType::fp32:
        return store(x);
      case tensor::DType::bf16:
        return store(tensor::BFloat16(x));
      case tensor::DType::i32:
        return store(static_cast<std::int32_t>(x * 1e6f));
      case tensor::DType::i16:
        return store(static_cast<std::int16_t>(x * 1e4f));
      case tensor::DType::e4m3:
        return store(tensor::E4M3(x));
      case tensor::DType::e5m2:
        return store(tensor::E5M2(x));
      case tensor::DType::e8m0:
      case tensor::DType::u8:
        return store(static_cast<std::uint8_t>(static_cast<int>(x * 60) + 128));
    }
  }
  float get(std::int64_t i) const {
    const std::byte* const at = bytes_.data() + static_cast<std::size_t>(i) * size_of(dtype_);
    if (dtype_ == tensor::DType::bf16) {
      tensor::BFloat16 x;
      std::memcpy(&x, at, sizeof x);
      return static_cast<float>(x);
    }
    float x = 0;
    std::memcpy(&x, at, sizeof x);
    return x;
  }

  std::int64_t count() const { return shape_.count(); }
  tensor::DType dtype() const { return dtype_; }
  tensor::Tensor tensor() { return {bytes_.empty() ? nullptr : bytes_.data(), shape_, dtype_}; }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  tensor::Shape shape_;
  tensor::DType dtype_;
  std::vector<std::byte> bytes_;
};

/// Every rank's bytes in rank order, by the library's own blocking collective.
inline std::vector<std::byte> plain_all_gather(const std::vector<std::byte>& mine, int ranks) {
  std::vector<std::byte> all(mine.size() * static_cast<std::size_t>(ranks));
  const auto n = static_cast<int>(mine.size());
  MPI_Allgather(mine.data(), n, MPI_BYTE, all.data(), n, MPI_BYTE, MPI_COMM_WORLD);
  return all;
}

/// True on every rank if `mine` is the same on all.
inline bool same_everywhere(const std::vector<std::byte>& mine, int ranks) {
  const auto all = plain_all_gather(mine, ranks);
  for (int r = 0; r < ranks; ++r) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(mine.size()) * r;
    if (!std::equal(mine.begin(), mine.end(), first)) return false;
  }
  return true;
}

inline Communicator world(profile::CollectiveLog* log = nullptr, Waiting waiting = Waiting::yield,
                          const Limits& limits = {}) {
  return {MPI_COMM_WORLD, "world", waiting, log, nullptr, limits};
}
inline Communicator world(const Limits& limits) { return world(nullptr, Waiting::yield, limits); }

inline constexpr std::int64_t kRows[] = {0, 1, 7, 1000, 100000};

/// The parts of all ranks, one behind the other, as a matrix of which each rank has the columns: a part is rows of
/// `width` bytes.
inline std::vector<std::byte> side_by_side(const std::vector<std::byte>& parts, std::size_t ranks, std::size_t width) {
  std::vector<std::byte> matrix(parts.size());
  const std::size_t of_rank = parts.size() / ranks;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t rank = i / of_rank, in_part = i % of_rank;
    matrix[in_part / width * width * ranks + rank * width + in_part % width] = parts[i];
  }
  return matrix;
}

}  // namespace shard8::comm::tests

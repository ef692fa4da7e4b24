// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "checkpoint/state_tensor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tensor/transfer.hpp"

namespace shard8::checkpoint {

using tensor::Tensor;

std::string_view name_of(Content content) {
  switch (content) {
    case Content::master:
      return "master";
    case Content::master_remainder:
      return "master_remainder";
    case Content::exp_avg:
      return "exp_avg";
    case Content::exp_avg_sq:
      return "exp_avg_sq";
    case Content::fp8_rowwise:
      return "fp8_rowwise";
    case Content::fp8_rowwise_scale_inv:
      return "fp8_rowwise_scale_inv";
    case Content::fp8_columnwise:
      return "fp8_columnwise";
    case Content::fp8_columnwise_scale_inv:
      return "fp8_columnwise_scale_inv";
    case Content::fp8_scale:
      return "fp8_scale";
    case Content::fp8_amax_history:
      return "fp8_amax_history";
    case Content::fp8_history_entries:
      return "fp8_history_entries";
  }
  return "?";
}

io::StridedBox LocalPart::memory() const {
  const std::int64_t cols = local.cols();
  return {box, 0, transposed ? 1 : cols, transposed ? cols : 1};
}

std::vector<std::int64_t> StateTensor::extents() const {
  std::vector<std::int64_t> all;
  for (int d = 0; d < shape.rank(); ++d) all.push_back(shape[d]);
  return all;
}

std::string StateTensor::label() const { return fmt::format("{}, {}", name, name_of(content)); }

namespace {

/// The finaliser of SplitMix64 (Steele, Lea and Flood 2014), a bijection.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

std::uint64_t bits_of(const std::byte* data, std::size_t size) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, data, size);  // little-endian, as files are
  return bits;
}

}  // namespace

std::uint64_t hash_element(std::int64_t index, std::uint64_t bits) {
  return mix(mix(static_cast<std::uint64_t>(index)) ^ bits);
}

std::uint64_t hash_parts(const tensor::Exec& exec, const StateTensor& tensor) {
  constexpr std::int64_t kBytesAtOnce = std::int64_t{4} << 20;
  const std::int64_t whole_cols = tensor.shape.rank() == 1 ? 1 : tensor.shape[1];
  const std::size_t size = tensor::size_of(tensor.dtype);
  std::uint64_t sum = 0;
  std::vector<std::byte> bytes;
  for (const LocalPart& part : tensor.parts) {
    const std::int64_t rows = part.local.rows(), cols = part.local.cols();
    const std::int64_t rows_at_once =
        std::max(std::int64_t{1}, kBytesAtOnce / (cols * static_cast<std::int64_t>(size)));
    for (std::int64_t first = 0; first < rows; first += rows_at_once) {
      const Tensor panel = part.local.slice(first, std::min(rows_at_once, rows - first));
      bytes.resize(panel.bytes());
      if (tensor.in_host_memory)
        std::memcpy(bytes.data(), panel.data, panel.bytes());
      else
        tensor::to_host(exec, bytes.data(), panel);
      const std::byte* next = bytes.data();
      for (std::int64_t r = first; r < first + panel.rows(); ++r) {
        for (std::int64_t c = 0; c < cols; ++c, next += size) {
          const std::int64_t row = part.box.row0 + (part.transposed ? c : r);
          const std::int64_t col = part.box.col0 + (part.transposed ? r : c);
          sum += hash_element(row * whole_cols + col, bits_of(next, size));
        }
      }
    }
  }
  return sum;
}

void copy_transposed(std::byte* to, const std::byte* from, std::int64_t rows, std::int64_t cols, std::size_t size,
                     std::int64_t first, std::int64_t count) {
  const auto copy_as = [&](auto element) {
    using T = decltype(element);
    const auto* const data = reinterpret_cast<const T*>(from);
    auto* const elements = reinterpret_cast<T*>(to);
    std::int64_t col = first / rows, row = first % rows;
    for (std::int64_t i = 0; i < count; ++i) {
      elements[i] = data[row * cols + col];
      if (++row == rows) row = 0, ++col;
    }
  };
  switch (size) {
    case 1:
      return copy_as(std::uint8_t{});
    case 2:
      return copy_as(std::uint16_t{});
    case 4:
      return copy_as(std::uint32_t{});
    default:
      break;
  }
  base::fail(base::ExitCode::failed, "elements of {} bytes cannot be transposed", size);
}

}  // namespace shard8::checkpoint

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/random.hpp"

#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/loops.hpp"

namespace shard8::kernels {
namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15u;

/// The finaliser of splitmix64 (Steele, Lea & Flood 2014, constants of Stafford's variant 13).
KOKKOS_INLINE_FUNCTION std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

void normal_fill(const Exec& exec, const tensor::Tensor& out, std::uint64_t key, const GlobalIndex& index,
                 double standard_deviation) {
  float* values = out.as<float>();
  // A tensor of one column, such as every tensor with one extent, is filled as one row.
  const bool column = out.cols() == 1;
  const std::int64_t rows = column ? 1 : out.rows(), cols = column ? out.rows() : out.cols();
  const std::int64_t stride = column ? index.row_stride : index.col_stride;
  constexpr std::int64_t kLength = 4096;
  const std::int64_t parts = (cols + kLength - 1) / kLength;
  for_rows(
      exec, "shard8::kernels::normal_fill", rows * parts, SHARD8_LAMBDA(const Team& team, std::int64_t part) {
        const std::int64_t r = part / parts, first = (part - r * parts) * kLength, rest = cols - first;
        row_for(team, rest < kLength ? rest : kLength, [=](std::int64_t at) {
          const std::int64_t c = first + at;
          // Outputs 2i + 1 and 2i + 2 of the splitmix64 stream that starts at the key.
          const auto i = static_cast<std::uint64_t>(index.offset + r * index.row_stride + c * stride);
          const std::uint64_t h1 = mix(key + (2 * i + 1) * kGolden), h2 = mix(key + (2 * i + 2) * kGolden);
          const double u1 = static_cast<double>((h1 >> 11) + 1) * 0x1p-53;  // (0, 1]
          const double u2 = static_cast<double>(h2 >> 11) * 0x1p-53;        // [0, 1)
          const double normal = Kokkos::sqrt(-2.0 * Kokkos::log(u1)) * Kokkos::cos(6.283185307179586 * u2);
          values[r * cols + c] = static_cast<float>(standard_deviation * normal);
        });
      });
}

std::uint64_t random_key(std::uint64_t seed, const char* name) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char* p = name; *p != '\0'; ++p) {
    hash = (hash ^ static_cast<unsigned char>(*p)) * 0x100000001b3u;
  }
  return mix(mix(seed + kGolden) ^ hash);
}

}  // namespace shard8::kernels

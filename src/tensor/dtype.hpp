// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shard8::tensor {

/// Element types of tensors. Master weights, optimizer state and statistics are fp32 (moments may be bf16, masters a
/// bf16 weight with an i16 remainder). Gathered weights and activations have the compute dtype or, with an FP8 recipe,
/// e4m3 or e5m2 with scales in fp32 or e8m0. i32 holds tokens and the bits of amaxes; i16 holds the remainders of
/// masters; u8 holds raw bytes.
enum class DType : std::uint8_t { fp32, bf16, i32, u8, e4m3, e5m2, e8m0, i16 };

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::fp32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::i16:
      return 2;
    case DType::u8:
    case DType::e4m3:
    case DType::e5m2:
    case DType::e8m0:
      return 1;
  }
  return 0;
}

/// Bytes of `count` elements that lie one behind the other. Callers compute the bytes of all elements at once in place
/// of multiplying size_of(), which elements of less than a byte would not have.
constexpr std::size_t bytes_of(DType dtype, std::int64_t count) {
  return static_cast<std::size_t>(count) * size_of(dtype);
}

constexpr bool is_float8(DType dtype) { return dtype == DType::e4m3 || dtype == DType::e5m2; }

/// Name as printed in reports: "fp32", "bf16", "e4m3", ...
constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return "fp32";
    case DType::i32:
      return "i32";
    case DType::bf16:
      return "bf16";
    case DType::u8:
      return "u8";
    case DType::e4m3:
      return "e4m3";
    case DType::e5m2:
      return "e5m2";
    case DType::e8m0:
      return "e8m0";
    case DType::i16:
      return "i16";
  }
  return "?";
}

/// Alignment in bytes of everything that is laid out in a block of memory: its address is a multiple of this. cuBLASLt
/// and cuDNN need 256 for their workspaces.
inline constexpr std::size_t kAlignment = 256;

/// `bytes` rounded up to a multiple of kAlignment.
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace shard8::tensor

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/stored_float.hpp"

#include <bit>
#include <cstring>

namespace shard8::io {

namespace {

template <class T>
T load(const std::byte* in, std::int64_t i) {
  T value;
  std::memcpy(&value, in + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

/// IEEE binary16, every value of which is an fp32 value: subnormals are m · 2^-24.
float from_half(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t wide = exponent == 0x1fu ? 0xffu : exponent + 112u;  // bias 15 to 127
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

}  // namespace

bool stored_float_from(std::string_view dtype, StoredFloat& out) {
  if (dtype == "F16") {
    out = StoredFloat::f16;
  } else if (dtype == "BF16") {
    out = StoredFloat::bf16;
  } else if (dtype == "F32") {
    out = StoredFloat::f32;
  } else if (dtype == "F64") {
    out = StoredFloat::f64;
  } else {
    return false;
  }
  return true;
}

std::int64_t bytes_of(StoredFloat type) {
  switch (type) {
    case StoredFloat::f16:
    case StoredFloat::bf16:
      return 2;
    case StoredFloat::f32:
      return 4;
    case StoredFloat::f64:
      break;
  }
  return 8;
}

void decode_floats(float* out, const std::byte* in, std::int64_t count, StoredFloat type) {
  switch (type) {
    case StoredFloat::f16:
      for (std::int64_t i = 0; i < count; ++i) out[i] = from_half(load<std::uint16_t>(in, i));
      return;
    case StoredFloat::bf16:
      for (std::int64_t i = 0; i < count; ++i) {
        out[i] = std::bit_cast<float>(static_cast<std::uint32_t>(load<std::uint16_t>(in, i)) << 16);
      }
      return;
    case StoredFloat::f32:
      if (count > 0) std::memcpy(out, in, static_cast<std::size_t>(count) * sizeof(float));
      return;
    case StoredFloat::f64:
      for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(load<double>(in, i));
      return;
  }
}

}  // namespace shard8::io

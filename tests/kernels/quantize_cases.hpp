// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/quantize.hpp"
#include "tests/kernels/buffer.hpp"
#include "tests/support/float8_reference.hpp"

namespace shard8::tests {

/// The elements as they are stored.
template <class T>
std::vector<T> elements(const Buffer& buffer) {
  return stored<T>(buffer);
}
inline std::vector<std::uint8_t> raw(const Buffer& buffer) { return elements<std::uint8_t>(buffer); }

/// Every code of an 8-bit format.
inline Buffer all_codes(DType format) {
  Buffer codes({256}, format);
  std::vector<std::uint8_t> bytes(256);
  for (std::size_t c = 0; c < 256; ++c) bytes[c] = static_cast<std::uint8_t>(c);
  store(codes, bytes);
  return codes;
}

inline Float8Reference reference_of(DType format) {
  return format == DType::e4m3 ? Float8Reference::e4m3() : Float8Reference::e5m2();
}

/// A source and how it is read.
struct QuantizeInput {
  std::string name;
  Buffer x;
  bool through_bf16 = false;

  /// The numbers that are quantized.
  std::vector<float> values() const {
    std::vector<float> values;
    for (const double v : x.get()) {
      const auto f = static_cast<float>(v);
      values.push_back(through_bf16 ? static_cast<float>(BFloat16(f)) : f);
    }
    return values;
  }
};

/// Matrices of this shape with every kind of numbers: as fp32, as bf16, and as fp32 through bf16.
inline std::vector<QuantizeInput> quantize_inputs(const Shape& shape) {
  const auto count = static_cast<std::size_t>(shape.count());
  const auto normal = Buffer::normal(shape, DType::fp32, 7).get();
  struct Kind {
    std::string name;
    std::vector<double> values;
  };
  std::vector<Kind> kinds{{"random", normal}};
  const auto filled = [&](double v) { return std::vector<double>(count, v); };
  // Magnitudes differ much, so that scales differ, something saturates and something is flushed.
  auto wide = normal, specials = normal, subnormal = normal, large = normal;
  for (std::size_t i = 0; i < count; ++i) {
    wide[i] = std::ldexp(wide[i], static_cast<int>(i * 2654435761u % 61) - 30);
    subnormal[i] *= 0x1p-130;
    large[i] = std::fmod(large[i], 1.0) * FLT_MAX;
  }
  const double special[] = {HUGE_VAL, -HUGE_VAL, std::nan(""), -std::nan(""), 0.0, -0.0, FLT_MAX, 1e-44};
  for (std::size_t i = 0, n = 0; i < count; i += 97) specials[i] = special[n++ % 8];
  auto infinite = normal, nan = normal;
  for (std::size_t i = 0; i < count; i += 301) infinite[i] = i % 2 == 0 ? HUGE_VAL : -HUGE_VAL;
  nan[count / 2] = -std::nan("");
  kinds.push_back({"wide", wide});
  kinds.push_back({"constant", filled(-3.3)});
  kinds.push_back({"zero", filled(0)});
  kinds.push_back({"negative zero", filled(-0.0)});
  kinds.push_back({"subnormal", subnormal});
  kinds.push_back({"large", large});
  kinds.push_back({"infinite", infinite});
  kinds.push_back({"all infinite", filled(-HUGE_VAL)});
  kinds.push_back({"a NaN", nan});
  kinds.push_back({"all NaN", filled(std::nan(""))});
  kinds.push_back({"specials", specials});
  std::vector<QuantizeInput> inputs;
  for (const auto& kind : kinds) {
    inputs.push_back({kind.name + " fp32", Buffer(shape, DType::fp32, kind.values), false});
    inputs.push_back({kind.name + " bf16", Buffer(shape, DType::bf16, kind.values), false});
    inputs.push_back({kind.name + " fp32 through bf16", Buffer(shape, DType::fp32, kind.values), true});
  }
  return inputs;
}

/// One cast, with what it lost.
struct CastReference {
  Float8Reference format;
  std::uint64_t saturated = 0, flushed = 0;

  std::uint8_t operator()(float x, float scale) {
    const volatile float scaled = x * scale;  // rounded to fp32
    const std::uint8_t code = format.encode(static_cast<double>(scaled));
    // Half a step beyond the largest number is a tie, which rounds to the even code.
    const auto& all = format.magnitudes();
    const double edge = all.back() + (all.back() - all[all.size() - 2]) / 2, a = std::abs(static_cast<double>(scaled));
    saturated += a > edge || (a == edge && all.size() % 2 == 0) ? 1 : 0;
    flushed += x != 0 && (code & 0x7f) == 0 ? 1 : 0;
    return code;
  }
};

/// The scale by the formula of kernels/quantize.hpp, in double precision; `otherwise` for an amax that gives no scale.
inline float scale_reference(float amax, double largest, bool power_of_2, float otherwise = 1.0f) {
  if (!std::isfinite(amax) || amax == 0) return otherwise;
  // Rounding a quotient of two floats from double to float is the same as dividing floats.
  const double quotient = largest / static_cast<double>(amax);
  float scale = quotient >= static_cast<double>(FLT_MAX) ? FLT_MAX : static_cast<float>(quotient);
  return power_of_2 ? std::ldexp(1.0f, std::ilogb(scale)) : scale;
}

/// The larger magnitude, NaN above all.
inline float larger_magnitude(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::nanf("");
  return std::max(std::abs(a), std::abs(b));
}

}  // namespace shard8::tests

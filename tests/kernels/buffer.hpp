// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <new>
#include <random>
#include <type_traits>
#include <vector>

#include "kernels/quantize.hpp"
#include "tensor/exec.hpp"
#include "tensor/operand.hpp"

namespace shard8::tests {

using tensor::BFloat16;
using tensor::DType;
using tensor::Exec;
using tensor::Shape;
using tensor::Tensor;

/// A tensor with memory of its own, exactly as large as it is, read and written as doubles.
class Buffer {
 public:
  Buffer(const Shape& shape, DType dtype, double value = 0) : shape_(shape), dtype_(dtype) {
    const auto bytes = static_cast<std::size_t>(shape.count()) * size_of(dtype);
    memory_.reset(static_cast<std::byte*>(::operator new(bytes, kAlignment)));
    set(std::vector<double>(static_cast<std::size_t>(shape.count()), value));
  }
  Buffer(const Shape& shape, DType dtype, const std::vector<double>& values) : Buffer(shape, dtype) { set(values); }

  /// Normal values with the given scale.
  static Buffer normal(const Shape& shape, DType dtype, unsigned seed, double scale = 1) {
    Buffer buffer(shape, dtype);
    std::mt19937_64 engine(seed);
    std::normal_distribution<double> draw(0, scale);
    std::vector<double> values(static_cast<std::size_t>(shape.count()));
    for (auto& v : values) v = draw(engine);
    buffer.set(values);
    return buffer;
  }
  static Buffer bytes(std::size_t n) { return {{static_cast<std::int64_t>(n)}, DType::u8, 0xff}; }

  Tensor tensor() const { return {memory_.get(), shape_, dtype_}; }
  operator Tensor() const { return tensor(); }            // NOLINT: passed to kernels as it is
  operator tensor::Operand() const { return tensor(); }   // NOLINT: the same, to matrix products
  operator kernels::Outputs() const { return tensor(); }  // NOLINT: the same, where results go
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }

  /// Stores the values, rounded to the dtype (e8m0: down to a power of two).
  void set(const std::vector<double>& values) {
    SHARD8_REQUIRE(static_cast<std::int64_t>(values.size()) == shape_.count(), "{} values", values.size());
    visit([&](auto* data) {
      using T = std::remove_pointer_t<decltype(data)>;
      for (std::size_t i = 0; i < values.size(); ++i) {
        if constexpr (std::is_same_v<T, tensor::E8M0>) {
          const int power = std::isnan(values[i]) ? 128 : std::clamp(std::ilogb(values[i]), -127, 127);
          data[i] = T(static_cast<std::uint8_t>(power + 127));
        } else if constexpr (std::is_class_v<T>) {
          data[i] = T(static_cast<float>(values[i]));
        } else {
          data[i] = static_cast<T>(values[i]);
        }
      }
    });
  }
  /// What is stored, exactly.
  std::vector<double> get() const {
    std::vector<double> values(static_cast<std::size_t>(shape_.count()));
    visit([&](const auto* data) {
      using T = std::remove_cvref_t<decltype(*data)>;
      for (std::size_t i = 0; i < values.size(); ++i) {
        if constexpr (std::is_class_v<T>) {
          values[i] = static_cast<double>(static_cast<float>(data[i]));
        } else {
          values[i] = static_cast<double>(data[i]);
        }
      }
    });
    return values;
  }

 private:
  template <class F>
  void visit(const F& f) const {
    switch (dtype_) {
      case DType::fp32:
        return f(tensor().as<float>());
      case DType::bf16:
        return f(tensor().as<BFloat16>());
      case DType::i32:
        return f(tensor().as<std::int32_t>());
      case DType::u8:
        return f(tensor().as<std::uint8_t>());
      case DType::e4m3:
        return f(tensor().as<tensor::E4M3>());
      case DType::e5m2:
        return f(tensor().as<tensor::E5M2>());
      case DType::e8m0:
        return f(tensor().as<tensor::E8M0>());
      case DType::i16:
        return f(tensor().as<std::int16_t>());
    }
  }
  static constexpr std::align_val_t kAlignment{256};
  struct Release {
    void operator()(std::byte* p) const noexcept { ::operator delete(p, kAlignment); }
  };
  Shape shape_;
  DType dtype_;
  std::unique_ptr<std::byte, Release> memory_;
};

/// The default instance, then others of one and of three threads (where a backend's instances have
/// a number of threads).
inline std::vector<Exec> exec_widths() {
  std::vector<Exec> widths{Exec()};
  if constexpr (std::is_constructible_v<Exec, int>) {
    for (const int threads : {3, 1}) widths.emplace_back(threads);
  }
  return widths;
}

/// Relative error of one rounding to the dtype.
inline double rounding(DType dtype) { return dtype == DType::bf16 ? 0x1p-8 : 0x1p-23; }

}  // namespace shard8::tests

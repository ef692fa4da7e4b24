// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <tuple>
#include <type_traits>
#include <vector>

#include "base/exact_sum.hpp"
#include "kernels/adamw.hpp"
#include "kernels/libraries.hpp"
#include "kernels/quantize.hpp"
#include "tensor/operand.hpp"
#include "tensor/runtime.hpp"
#include "tensor/transfer.hpp"

namespace shard8::tests {

using tensor::BFloat16;
using tensor::DType;
using tensor::Exec;
using tensor::Shape;
using tensor::Tensor;

/// The elements of a tensor as they are stored, once all kernels have run.
template <class T>
std::vector<T> stored(const Tensor& tensor) {
  Kokkos::fence("shard8::tests::stored");
  return tensor::to_host<T>(Exec(), tensor);
}
/// Stores elements as they are, once all kernels have run.
template <class T>
void store(const Tensor& tensor, const std::vector<T>& elements) {
  SHARD8_REQUIRE(tensor.bytes() == elements.size() * sizeof(T), "{} bytes for {}", elements.size() * sizeof(T),
                 tensor.bytes());
  Kokkos::fence("shard8::tests::store");  // on every stream: one may still read the tensor
  tensor::to_device(Exec(), tensor, elements.data());
  Kokkos::fence("shard8::tests::store");
}

/// A tensor with memory of its own in the execution space, of exactly its size. Its elements are read and written as
/// doubles.
class Buffer {
 public:
  Buffer(const Shape& shape, DType dtype, double value = 0) : shape_(shape), dtype_(dtype) {
    const auto bytes = static_cast<std::size_t>(shape.count()) * size_of(dtype);
    if constexpr (tensor::kDevice) {
      memory_.reset(static_cast<std::byte*>(Kokkos::kokkos_malloc<Exec::memory_space>("shard8::tests::buffer", bytes)));
    } else {
      memory_.reset(static_cast<std::byte*>(::operator new(bytes, kAlignment)));
    }
    visit([&]<class T>(std::type_identity<T>) {
      store(tensor(), std::vector<T>(static_cast<std::size_t>(shape.count()), rounded<T>(value)));
    });
  }
  Buffer(const Shape& shape, DType dtype, const std::vector<double>& values) : Buffer(shape, dtype) { set(values); }

  /// Normal values with the given scale.
  static Buffer normal(const Shape& shape, DType dtype, unsigned seed, double scale = 1) {
    return {shape, dtype, normal_values(static_cast<std::size_t>(shape.count()), seed, scale)};
  }
  static Buffer bytes(std::size_t n) { return {{static_cast<std::int64_t>(n)}, DType::u8, 0xff}; }

  Tensor tensor() const { return {memory_.get(), shape_, dtype_}; }
  operator Tensor() const { return tensor(); }                 // NOLINT: passed to kernels as it is
  operator tensor::Operand() const { return tensor(); }        // NOLINT: passed to matrix products as it is
  operator tensor::PartialSums() const { return tensor(); }    // NOLINT: passed as a sum of one partial sum
  operator tensor::SumOfPartials() const { return tensor(); }  // NOLINT: passed as a sum of one partial sum
  operator kernels::Outputs() const { return tensor(); }       // NOLINT: passed as an output as it is
  operator kernels::Workspace() const { return tensor(); }     // NOLINT: passed as a workspace as it is
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }

  /// Stores the values, rounded to the dtype (e8m0: down to a power of two).
  void set(const std::vector<double>& values) {
    SHARD8_REQUIRE(static_cast<std::int64_t>(values.size()) == shape_.count(), "{} values", values.size());
    visit([&]<class T>(std::type_identity<T>) {
      std::vector<T> elements(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) elements[i] = rounded<T>(values[i]);
      store(tensor(), elements);
    });
  }
  /// The stored values, exactly.
  std::vector<double> get() const {
    std::vector<double> values;
    visit([&]<class T>(std::type_identity<T>) {
      for (const T element : stored<T>(tensor())) {
        if constexpr (std::is_class_v<T>) {
          values.push_back(static_cast<double>(static_cast<float>(element)));
        } else {
          values.push_back(static_cast<double>(element));
        }
      }
    });
    return values;
  }

 private:
  /// The value, rounded to an element.
  template <class T>
  static T rounded(double value) {
    if constexpr (std::is_same_v<T, tensor::E8M0>) {
      const int power = std::isnan(value) ? 128 : std::clamp(std::ilogb(value), -127, 127);
      return T(static_cast<std::uint8_t>(power + 127));
    } else if constexpr (std::is_class_v<T>) {
      return T(static_cast<float>(value));
    } else {
      return static_cast<T>(value);
    }
  }
  /// Tests ask for the same values again and again, and drawing them takes longer than most kernels: the last ones are
  /// kept.
  static const std::vector<double>& normal_values(std::size_t count, unsigned seed, double scale) {
    constexpr std::size_t kMostKept = std::size_t{1} << 25;
    static std::map<std::tuple<std::size_t, unsigned, double>, std::vector<double>> kept;
    static std::size_t kept_count = 0;
    if (kept_count > kMostKept) {
      kept.clear();
      kept_count = 0;
    }
    auto [found, is_new] = kept.try_emplace({count, seed, scale}, count);
    if (!is_new) return found->second;
    kept_count += count;
    std::mt19937_64 engine(seed);
    std::normal_distribution<double> draw(0, scale);
    for (double& value : found->second) value = draw(engine);
    return found->second;
  }
  template <class F>
  void visit(const F& f) const {
    switch (dtype_) {
      case DType::fp32:
        return f(std::type_identity<float>{});
      case DType::bf16:
        return f(std::type_identity<BFloat16>{});
      case DType::i32:
        return f(std::type_identity<std::int32_t>{});
      case DType::u8:
        return f(std::type_identity<std::uint8_t>{});
      case DType::e4m3:
        return f(std::type_identity<tensor::E4M3>{});
      case DType::e5m2:
        return f(std::type_identity<tensor::E5M2>{});
      case DType::e8m0:
        return f(std::type_identity<tensor::E8M0>{});
      case DType::i16:
        return f(std::type_identity<std::int16_t>{});
    }
  }
  static constexpr std::align_val_t kAlignment{256};
  struct Release {
    void operator()(std::byte* p) const noexcept {
      if constexpr (tensor::kDevice) {
        Kokkos::kokkos_free<Exec::memory_space>(p);
      } else {
        ::operator delete(p, kAlignment);
      }
    }
  };
  Shape shape_;
  DType dtype_;
  std::unique_ptr<std::byte, Release> memory_;
};

/// CastCounts in memory of the execution space.
class Counts {
 public:
  Counts(const kernels::CastCounts& start = {}) { *this = start; }  // NOLINT: counts are what they start with
  Counts& operator=(const kernels::CastCounts& counts) {
    store<kernels::CastCounts>(memory_, {counts});
    return *this;
  }
  operator kernels::CastCounts*() const {  // NOLINT: passed to kernels as it is
    return reinterpret_cast<kernels::CastCounts*>(memory_.tensor().data);
  }
  kernels::CastCounts get() const { return stored<kernels::CastCounts>(memory_).at(0); }

 private:
  Buffer memory_ = Buffer::bytes(sizeof(kernels::CastCounts));
};

/// A sum that kernels add to, from 0.
class Total {
 public:
  operator Tensor() const { return memory_; }  // NOLINT: passed to kernels as it is
  double get() const { return stored<double>(memory_).at(0); }

 private:
  Buffer memory_{{8}, DType::u8};
};

/// An exact sum that kernels add to, from 0.
class ExactTotal {
 public:
  operator Tensor() const { return memory_; }  // NOLINT: passed to kernels as it is
  double get() const { return stored<base::ExactSum>(memory_).at(0).value(); }

 private:
  Buffer memory_{{kernels::kExactTotalBytes}, DType::u8};
};

/// Execution space instances: the default instance, then others. Where instances of a backend have a number of threads,
/// one of one thread and one of three; on a device, one of another stream.
template <class Space = Exec>
std::vector<Space> exec_widths() {
  std::vector<Space> widths{Space()};
  if constexpr (tensor::kDevice) {
    for (const auto& other : Kokkos::Experimental::partition_space(Space(), std::vector<int>{1}))
      widths.push_back(other);
  } else if constexpr (std::is_constructible_v<Space, int>) {
    for (const int threads : {3, 1}) widths.emplace_back(threads);
  }
  return widths;
}

/// Relative error of one rounding to the dtype.
inline double rounding(DType dtype) { return dtype == DType::bf16 ? 0x1p-8 : 0x1p-23; }

}  // namespace shard8::tests

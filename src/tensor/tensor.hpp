// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>

#include "base/error.hpp"
#include "tensor/dtype.hpp"
#include "tensor/float8.hpp"

namespace shard8::tensor {

/// Extents of a dense row-major array of 1 to 4 dimensions. A default-constructed shape has rank 0 and no elements.
class Shape {
 public:
  static constexpr int kMaxRank = 4;
  constexpr Shape() = default;
  /// At most kMaxRank extents; this is not checked.
  constexpr Shape(std::initializer_list<std::int64_t> extents) {
    for (const auto e : extents) extents_[static_cast<std::size_t>(rank_++)] = e;
  }
  constexpr int rank() const { return rank_; }
  constexpr std::int64_t operator[](int d) const { return extents_[static_cast<std::size_t>(d)]; }
  /// Product of the extents; 0 for a default-constructed shape.
  constexpr std::int64_t count() const {
    if (rank_ == 0) return 0;
    std::int64_t n = 1;
    for (int d = 0; d < rank_; ++d) n *= (*this)[d];
    return n;
  }
  constexpr bool operator==(const Shape&) const = default;

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

/// The extents as text: "(64, 192)".
std::string to_string(const Shape& shape);

/// The DType of elements of type T.
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::fp32;
  if constexpr (std::is_same_v<T, BFloat16>) return DType::bf16;
  if constexpr (std::is_same_v<T, std::int32_t>) return DType::i32;
  if constexpr (std::is_same_v<T, std::uint8_t>) return DType::u8;
  if constexpr (std::is_same_v<T, E4M3>) return DType::e4m3;
  if constexpr (std::is_same_v<T, E5M2>) return DType::e5m2;
  if constexpr (std::is_same_v<T, E8M0>) return DType::e8m0;
  if constexpr (std::is_same_v<T, std::int16_t>) return DType::i16;
}

/// A typed, shaped view of dense row-major memory that somebody else owns, usually an arena. A copy is another view of
/// the same memory. `data` may be null, in a plan or where an argument is left out. Kernels take tensors in the order
/// (exec, outputs, inputs, scalars).
struct Tensor {
  std::byte* data = nullptr;
  Shape shape;
  DType dtype = DType::fp32;

  std::int64_t count() const { return shape.count(); }
  std::size_t bytes() const { return bytes_of(dtype, count()); }
  /// The first extent.
  std::int64_t rows() const { return shape[0]; }
  /// Elements of a row: the product of all extents but the first; 1 for a tensor of one dimension.
  std::int64_t cols() const {
    std::int64_t n = 1;
    for (int d = 1; d < shape.rank(); ++d) n *= shape[d];
    return n;
  }
  /// Whether there is nothing to read: no memory or no elements.
  bool empty() const { return data == nullptr || count() == 0; }

  /// The data as T. Throws Error(failed) when T is not the type of the dtype.
  template <class T>
  T* as() const {
    SHARD8_REQUIRE(dtype == dtype_of<T>(), "tensor {} of {} read as {}", to_string(shape), name_of(dtype),
                   name_of(dtype_of<T>()));
    return reinterpret_cast<T*>(data);
  }

  /// Rows [first, first + n) of dimension 0, as a view. The rows must exist; this is not checked.
  Tensor slice(std::int64_t first, std::int64_t n) const {
    Tensor t = *this;
    if (t.data != nullptr) t.data += bytes_of(dtype, first * cols());
    t.shape = with_rows(n);
    return t;
  }
  /// The memory of this tensor with another shape, from the first element on. `to` may have fewer elements; more are an
  /// Error(failed).
  Tensor reshaped(const Shape& to) const {
    SHARD8_REQUIRE(to.count() <= count(), "cannot view {} as {}", to_string(shape), to_string(to));
    Tensor t = *this;
    t.shape = to;
    return t;
  }

 private:
  Shape with_rows(std::int64_t n) const {
    switch (shape.rank()) {
      case 1:
        return {n};
      case 2:
        return {n, shape[1]};
      case 3:
        return {n, shape[1], shape[2]};
      default:
        return {n, shape[1], shape[2], shape[3]};
    }
  }
};

}  // namespace shard8::tensor

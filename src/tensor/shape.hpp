// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

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

}  // namespace shard8::tensor

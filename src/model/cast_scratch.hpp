// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fp8/cast_buffer.hpp"
#include "fp8/quantizer.hpp"

namespace shard8::model {

/// Memory for both copies of a matrix in FP8, one matrix after the other.
struct CastScratch {
  fp8::CastBuffer by_rows, by_columns;  ///< the same where one copy serves both ways

  /// For matrices of a role of up to so many elements; nothing without a recipe.
  static CastScratch allocate(const fp8::Recipe& recipe, fp8::Role role, std::int64_t elements, tensor::Arena& arena);
  /// The copies of a matrix (rows, cols), which is gathered over the tensor group or not.
  fp8::Operands view(const fp8::Recipe& recipe, fp8::Role role, std::int64_t rows, std::int64_t cols,
                     bool gathered) const;
};

}  // namespace shard8::model

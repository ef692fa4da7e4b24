// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/cast_scratch.hpp"

namespace shard8::model {

CastScratch CastScratch::allocate(const fp8::Recipe& recipe, fp8::Role role, std::int64_t elements,
                                  tensor::Arena& arena) {
  CastScratch scratch;
  if (!recipe.on()) return scratch;
  scratch.by_rows = fp8::CastBuffer(arena, elements, recipe.by_rows(role));
  scratch.by_columns = recipe.two_copies(role) || recipe.transposed(false)
                           ? fp8::CastBuffer(arena, elements, recipe.by_columns(role))
                           : scratch.by_rows;
  return scratch;
}

fp8::Operands CastScratch::view(const fp8::Recipe& recipe, fp8::Role role, std::int64_t rows, std::int64_t cols,
                                bool gathered) const {
  const tensor::DType dtype = recipe.dtype(role);
  if (recipe.per_tensor()) {
    if (!recipe.transposed(gathered)) return fp8::Operands(by_columns.view(rows, cols, dtype, recipe.by_rows(role)));
    // Of both copies that by columns is the one that may be kept, so the one scale lies beside it.
    const auto kept = by_columns.view_transposed(rows, cols, dtype, recipe.by_columns(role));
    auto read = by_rows.view(rows, cols, dtype, recipe.by_rows(role));
    read.scale_inv = kept.scale_inv;
    return {read, kept};
  }
  return {by_rows.view(rows, cols, recipe.dtype(role), recipe.by_rows(role)),
          by_columns.view(rows, cols, recipe.dtype(role), recipe.by_columns(role))};
}

}  // namespace shard8::model

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "deck/config.hpp"

namespace shard8::model {

/// Which of the tensor group's two exchanges in the backward of a column-parallel linear run beside a matrix product.
struct ColumnOverlap {
  bool gather = false;   ///< the gather of the input, which wgrad reads, runs beside dgrad
  bool scatter = false;  ///< the reduce-scatter of dgrad's result runs beside wgrad

  bool any() const { return gather || scatter; }
};

/// How the gather of the output's gradient dy in the backward of a row-parallel linear overlaps.
struct RowOverlap {
  bool gather = false;          ///< it runs beside the wgrad of the row-parallel linear whose backward came before
  bool wgrad_deferred = false;  ///< this linear's wgrad waits until the next such gather has begun
};

/// Which exchanges of the tensor group run beside matrix products. Results do not depend on it: the same products and
/// sums are computed, in another order.
///
/// The backward of a model meets row-parallel linears in the order fc2, proj of the last layer, fc2, proj of the layer
/// below, and so on. A gather of dy for one of them has no product of its own linear to run beside, because all of them
/// read dy. So the wgrad of the linear before is deferred: proj's gather runs beside fc2's wgrad, and fc2's gather
/// beside the wgrad of proj in the layer above.
struct Overlap {
  ColumnOverlap qkv, fc1;
  RowOverlap proj, fc2;
  bool head_scatter = false;  ///< of the gradient of the head's input, beside the head's last wgrad

  /// As the deck says for its tensor group; nothing in a group of one.
  static Overlap make(const deck::Config& deck);

  bool any() const { return qkv.any() || fc1.any() || proj.gather || fc2.gather || head_scatter; }
  /// Whether the matrices that two linears gather must lie in the tensor group's memory at the same time.
  bool two_gathered() const { return proj.gather || fc2.gather; }
};

}  // namespace shard8::model

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

/// Which exchanges of the tensor group run beside matrix products. Results do not depend on it: the same products and
/// sums are computed, in another order.
struct Overlap {
  ColumnOverlap qkv, fc1;
  bool head_scatter = false;  ///< of the gradient of the head's input, beside the head's last wgrad

  /// As the deck says for a tensor group of `tensor` ranks; nothing in a group of one.
  static Overlap make(const deck::OverlapConfig& deck, int tensor) {
    const auto on = [&](deck::OverlapMethod method) {
      return deck.enable && tensor > 1 && method != deck::OverlapMethod::off;
    };
    return {{on(deck.qkv_dgrad), on(deck.qkv_wgrad)}, {on(deck.fc1_dgrad), on(deck.fc1_wgrad)}, on(deck.head_dgrad)};
  }
  bool any() const { return qkv.any() || fc1.any() || head_scatter; }
};

}  // namespace shard8::model

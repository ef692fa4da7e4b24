// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/context.hpp"
#include "profile/collective_log.hpp"
#include "train/overlap/memory.hpp"

namespace shard8::train {

/// One exchange of the tensor group and the product that hides it, in every order in which they are timed. All
/// functions are collective over the tensor group and do the same at each call.
struct OverlapCase {
  model::TensorExchange exchange{};
  std::int64_t m = 0, n = 0, k = 0;  ///< of the product on one rank, with all tokens
  tensor::DType dtype{};             ///< of the product's left operand
  profile::CollectiveKey moved{};    ///< of the exchange
  std::function<void()> prepare;     ///< makes what `product` reads; called before the others
  /// No exchange. Of a reduce-scatter also the norm that reads its result, forward or backward.
  std::function<void()> product;
  std::function<void()> alone;       ///< the exchange, no product
  std::function<void()> sequential;  ///< both in the plain order
  std::function<void()> overlapped;
  /// Methods by parts: the products and waits of `overlapped`, where each rank exchanges one token. Empty for bulk.
  std::function<void()> flags;
};

/// The cases of a layer and of the head that `overlap` hides, in the order of profile::Exchange. What the functions use
/// (context, memory) must outlive them. `accumulate`: wgrads add to what is there. Collective over the tensor group.
std::vector<OverlapCase> overlap_cases(const model::Context& context, const model::Overlap& overlap,
                                       const OverlapMemory& memory, bool accumulate);

}  // namespace shard8::train

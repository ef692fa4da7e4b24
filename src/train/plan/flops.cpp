// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/module_operations.hpp"
#include "train/plan/plan.hpp"

namespace shard8::train {

namespace {

/// FLOPs of the products of attention, over the causal half of the square. Forward has two products. Backward has four,
/// and a fifth one, which recomputes the scores and is not counted.
std::uint64_t attention_flops(const model::operation::Attention& a) {
  const auto of = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  const auto product = of(a.shape.batch) * of(a.shape.heads) * of(a.shape.seq) * of(a.shape.seq) * of(a.shape.head_dim);
  return (a.backward ? 4 : 2) * product;
}

}  // namespace

std::uint64_t model_flops(const model::Operation& operation) {
  if (operation.recomputed) return 0;
  if (const auto* p = operation.product())
    return 2 * static_cast<std::uint64_t>(p->rows) * static_cast<std::uint64_t>(p->cols) *
           static_cast<std::uint64_t>(p->inner);
  if (const auto* a = operation.attention()) return attention_flops(*a);
  return 0;
}

double model_flops_per_token(const deck::ModelConfig& model) {
  std::uint64_t flops = 0;
  model::OperationWriter out([&](const model::Operation& operation) { flops += model_flops(operation); });
  const model::Dims dims = model::Dims::make(model, 1, 1, tensor::DType::bf16);
  model::ModuleOperations one_sequence(out, dims, {}, {});
  one_sequence.layer_forward(0);
  one_sequence.layer_backward(0, false, model::ModuleOperations::Next::nothing);
  flops *= static_cast<std::uint64_t>(model.layers);
  one_sequence.head(false);
  return static_cast<double>(flops / static_cast<std::uint64_t>(model.seq));
}

}  // namespace shard8::train

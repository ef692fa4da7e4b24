// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/plan/plan.hpp"
#include "train/record.hpp"

namespace shard8::train {

namespace {

/// FLOPs of the products of attention, over the causal half of the square. Forward has two products. Backward has four,
/// and a fifth one, which recomputes the scores and is not counted.
std::uint64_t attention_flops(const operation::Attention& a) {
  const auto of = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  const auto product = of(a.shape.batch) * of(a.shape.heads) * of(a.shape.seq) * of(a.shape.seq) * of(a.shape.head_dim);
  return (a.backward ? 4 : 2) * product;
}

}  // namespace

std::uint64_t model_flops(const operation::Operation& operation) {
  if (operation.recomputed) return 0;
  if (const auto* p = operation.product())
    return 2 * static_cast<std::uint64_t>(p->rows) * static_cast<std::uint64_t>(p->cols) *
           static_cast<std::uint64_t>(p->inner);
  if (const auto* a = operation.attention()) return attention_flops(*a);
  return 0;
}

double model_flops_per_token(const deck::ModelConfig& model) {
  deck::Config one_sequence;
  one_sequence.model = model;
  one_sequence.data.batch = one_sequence.data.micro_batch = 1;
  one_sequence.fsdp.gather = deck::Gather::bf16;
  const auto flops_with = [&](std::int64_t layers) {
    one_sequence.model.layers = layers;
    std::uint64_t flops = 0;
    record_step(Setup::make(one_sequence, 0, 1), {.first = true, .last = true},
                [&](const operation::Operation& operation) { flops += model_flops(operation); });
    return flops;
  };
  const std::uint64_t one = flops_with(1), of_a_layer = flops_with(2) - one;  // all layers are alike
  const std::uint64_t flops = one + static_cast<std::uint64_t>(model.layers - 1) * of_a_layer;
  return static_cast<double>(flops / static_cast<std::uint64_t>(model.seq));
}

}  // namespace shard8::train

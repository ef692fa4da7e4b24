// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "tensor/transfer.hpp"
#include "train/trainer.hpp"

namespace shard8::train {

/// Tokens spread over the vocabulary (Knuth's multiplicative hash), each its own target.
void Trainer::make_up_tokens() {
  const auto& a = state_.activations;
  const auto count = static_cast<std::size_t>(a.tokens.count());
  std::vector<std::int32_t> tokens(count);
  for (std::size_t i = 0; i < count; ++i)
    tokens[i] = static_cast<std::int32_t>(i * 2654435761u % static_cast<std::uint64_t>(setup_.config.model.vocab));
  const std::vector<float> weights(count, 1.0f);
  tensor::to_device(executor_->exec(), a.tokens, tokens.data());
  tensor::to_device(executor_->exec(), a.targets, tokens.data());
  tensor::to_device(executor_->exec(), a.token_weights, weights.data());
}

/// What no collective brings in a skeleton of the computation: small numbers in every format, so that products take
/// their usual time and power.
void Trainer::make_up_arrivals() {
  std::vector<std::uint8_t> numbers(std::size_t{4} << 20);
  std::uint32_t random = 1;
  for (std::uint8_t& byte : numbers) {
    random = random * 1664525u + 1013904223u;  // Numerical Recipes' generator
    byte = static_cast<std::uint8_t>(0x30u | (random >> 28 & 0x7u) | (random >> 24 & 0x80u));
  }
  for (const auto kind : {tensor::MemoryKind::gathered, tensor::MemoryKind::exchanged}) {
    const tensor::Tensor all = state_.arenas[kind].since(0);
    for (std::int64_t at = 0; at < all.count(); at += static_cast<std::int64_t>(numbers.size())) {
      const auto count = std::min(static_cast<std::int64_t>(numbers.size()), all.count() - at);
      tensor::to_device(executor_->exec(), all.slice(at, count), numbers.data());
    }
  }
}

void Trainer::rehearse(kernels::Tuning tuning) {
  libraries_->set_tuning(tuning);
  make_up_tokens();
  const auto count = state_.activations.tokens.count();
  rehearse_step(1.0f / static_cast<float>(count));
  if (setup_.weights.recipe.delayed()) {  // from the second step on, the kernels that write matrices also cast them
    between_steps([&] {
      state_.scaling.reduce(*executor_, mesh_.world);
      state_.scaling.update(*executor_);
    });
    rehearse_step(1.0f / static_cast<float>(count));
  }
  libraries_->set_tuning(kernels::Tuning::off);
}

/// Forward and backward of the tokens that lie in state_.activations, for one or two micro-batches.
void Trainer::rehearse_step(float scale) {
  timer_.begin_step();
  // Two micro-batches run both kinds of wgrad, if there are both: the first one overwrites gradients, the second one
  // adds to them.
  const std::int64_t micro_batches = std::min<std::int64_t>(setup_.layout.micro_batches, 2);
  weights_.begin_step(model::visits(setup_.config.model, setup_.weights.recipe, micro_batches));
  for (std::int64_t m = 0; m < micro_batches; ++m) {
    model::Transformer::MicroBatch batch;
    batch.last = m + 1 == micro_batches;
    batch.scale = scale;
    model_.forward_backward(context_, weights_, gradients_, batch);
  }
  gradients_.finish();
  timer_.discard_step();
}

}  // namespace shard8::train

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "tensor/transfer.hpp"
#include "train/trainer.hpp"

namespace shard8::train {

void Trainer::rehearse(kernels::Tuning tuning) {
  libraries_->set_tuning(tuning);
  const auto& a = state_.activations;
  const auto count = static_cast<std::size_t>(a.tokens.count());
  std::vector<std::int32_t> tokens(count);
  for (std::size_t i = 0; i < count; ++i)  // made-up tokens, spread over the vocabulary (Knuth's multiplicative hash)
    tokens[i] = static_cast<std::int32_t>(i * 2654435761u % static_cast<std::uint64_t>(setup_.config.model.vocab));
  const std::vector<float> weights(count, 1.0f);
  tensor::to_device(executor_->exec(), a.tokens, tokens.data());
  tensor::to_device(executor_->exec(), a.targets, tokens.data());
  tensor::to_device(executor_->exec(), a.token_weights, weights.data());

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
  // Two micro-batches run both kinds of wgrad: the first one overwrites gradients, the second one adds to them.
  const std::int64_t micro_batches = std::min<std::int64_t>(setup_.layout.micro_batches, 2);
  weights_.begin_step(model::visits(setup_.config.model, setup_.weights.recipe, micro_batches));
  for (std::int64_t m = 0; m < micro_batches; ++m) {
    model::Transformer::MicroBatch batch;
    batch.first = m == 0;
    batch.last = m + 1 == micro_batches;
    batch.scale = scale;
    model_.forward_backward(context_, weights_, gradients_, batch);
  }
  gradients_.finish();
  timer_.discard_step();
}

}  // namespace shard8::train

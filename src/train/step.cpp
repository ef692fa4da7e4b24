// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "optim/schedule.hpp"
#include "train/trainer.hpp"

namespace shard8::train {

/// One training step, as a list.
StepResult Trainer::step(std::int64_t step) {
  timer_.begin_step();
  const std::int64_t micro_batches = setup_.layout.micro_batches;
  const double rate = optim::learning_rate(setup_.config.optimizer, step);

  weights_.begin_step(model::visits(setup_.config.model, setup_.weights.recipe, micro_batches));
  double loss_sum = 0;
  for (std::int64_t m = 0; m < micro_batches; ++m) {
    load(step, m);                    // tokens of this data rank
    loss_sum += forward_backward(m);  // gathers weights, starts reducing gradients after the last
  }
  reduce_gradients();                   // over shards, replicas and, for what they share, tensor ranks
  const double norm = gradient_norm();  // global norm of the gradients
  update(step, rate, norm);             // AdamW on this rank's shards
  quantize_weights();                   // FP8 shards and scales of the next step
  const double loss = mean_loss(loss_sum);

  const double seconds = timer_.end_step().total;
  return {step, loss, norm, rate, loader_.tokens_per_step(), seconds};
}

}  // namespace shard8::train

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <utility>

#include "kernels/elementwise.hpp"
#include "optim/schedule.hpp"
#include "train/trainer.hpp"

namespace shard8::train {

/// One training step, as a list.
StepResult Trainer::step(std::int64_t step) {
  timer_.begin_step();
  const std::int64_t micro_batches = setup_.layout.micro_batches;
  const double rate = optim::learning_rate(setup_.config.optimizer, step);

  if (!std::exchange(begun_, false)) weights_.begin_step(visits_);
  kernels::fill_zero(exec_, state_.activations.loss);
  for (std::int64_t m = 0; m < micro_batches; ++m) {
    load(step, m);        // tokens of this data rank
    forward_backward(m);  // gathers weights, starts reducing gradients after the last
  }
  look_back();  // while a device works: how long what took in the step before
  // Gradients over shards, replicas and, for what they share, tensor ranks; AdamW on this rank's shards, with
  // the global norm where it clips.
  const std::optional<double> clipped = reduce_and_update(step, rate);
  quantize_weights();     // FP8 shards and scales of the next step
  begin_next_step(step);  // gathers what it needs first
  const double norm = clipped ? *clipped : norm_of_update();
  const double loss = mean_loss();

  const double seconds = timer_.end_step();
  if (!std::exchange(first_step_over_, true)) {  // lists are made that no later step has to make
    look_back();
    mesh_.world.first_step_over();
  }
  return {step, loss, norm, rate, loader_.tokens_per_step(), seconds};
}

}  // namespace shard8::train

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/trainer.hpp"

namespace shard8::train {

// One training step, as a list.
StepResult Trainer::step(std::int64_t step) {
  begin_step();  // the order in which this step uses units, unless the step before has begun it
  for (std::int64_t m = 0; m < micro_batches(); ++m) {
    load(step, m);        // tokens of this data rank
    forward_backward(m);  // gathers weights; starts to reduce gradients, after the last or each micro-batch
  }
  collect_timings();  // reads the times of the step before, while a device works on this one
  const double rate = learning_rate(step);
  const auto clipped = reduce_and_update(step, rate);         // gradients over shards, replicas and tensor ranks; AdamW
  quantize_weights();                                         // FP8 shards and scales for the next step
  begin_next_step(step);                                      // the first gathers of the next step
  const double norm = clipped ? *clipped : norm_of_update();  // 0 in a skeleton
  std::uint64_t stop_request = 0;
  const double loss = mean_loss(stop_request);  // all-reduces the loss and the ranks' stop requests
  std::optional<ExpertStep> experts;
  if (setup_.dims.experts.on()) experts = expert_sums_.sum(*executor_);  // all-reduces the tokens of experts
  return {step, loss, norm, rate, tokens_per_step(), end_step(), stop_request, experts};
}

}  // namespace shard8::train

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <chrono>

#include "train/trainer.hpp"

namespace shard8::train {

namespace {

/// Batches whose visits of units the weight store knows at a time. Chosen: units that stay gathered are gathered once
/// for so many batches, and the list of visits stays short.
constexpr std::int64_t kBatchesAtOnce = 16;

}  // namespace

std::int64_t validation_batches(const data::Loader& loader, const deck::RunConfig& run) {
  const auto available = loader.dataset().steps_available();
  return run.validate_batches > 0 || !available ? run.validate_batches : *available;
}

std::int64_t validation_tokens(const data::Loader& loader, const deck::RunConfig& run) {
  const std::int64_t most = validation_batches(loader, run) * loader.tokens_per_step();
  const auto available = loader.dataset().sequences();
  return available ? std::min(most, *available * loader.dataset().seq()) : most;
}

void Trainer::validate_with(data::Loader& loader) {
  SHARD8_REQUIRE(setup_.validates() && !skeleton_, "a training that does not validate gets data for it");
  validation_ = &loader;
}

bool Trainer::validates_after(std::int64_t step) const {
  if (validation_ == nullptr) return false;
  return (step + 1) % setup_.config.run.validate_every == 0 || step + 1 == setup_.config.run.steps;
}

Validation Trainer::validate(const std::function<std::uint64_t()>& request) {
  SHARD8_REQUIRE(validation_ != nullptr && !begun_, "a validation {}",
                 begun_ ? "while the next step has begun" : "without data");
  const auto began = std::chrono::steady_clock::now();
  Validation result;
  between_steps([&] {
    const fp8::ScalingState::Unrecorded unrecorded(state_.scaling);
    validate(request, result);
  });
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return result;
}

void Trainer::validate(const std::function<std::uint64_t()>& request, Validation& result) {
  const std::int64_t batches = validation_batches(*validation_, setup_.config.run);
  double sum = 0;
  while (result.batches < batches && result.stop_request == 0) {
    const std::int64_t first = result.batches, end = std::min(batches, first + kBatchesAtOnce);
    std::int64_t micro_batches = 0;
    for (std::int64_t b = first; b < end; ++b) micro_batches += validation_->micro_batches_in(b);
    weights_.begin_step(model::forward_visits(setup_.config.model, micro_batches));
    while (result.batches < end && result.stop_request == 0) sum += validate_batch(result.batches, request, result);
  }
  weights_.wait();  // a validation that is stopped has begun to gather for the batches that are left
  if (result.batches == batches) result.loss = sum / static_cast<double>(result.tokens);
}

/// Returns the sum of weight·loss over the batch.
double Trainer::validate_batch(std::int64_t number, const std::function<std::uint64_t()>& request, Validation& result) {
  clear(state_.activations.loss);
  for (std::int64_t m = 0; m < validation_->micro_batches_in(number); ++m) {
    {
      auto phase = timer_.phase(profile::Phase::data, "load");
      to_activations(validation_->get(number, m));
    }
    model_.forward(context_, weights_, micro_batch_of(number, m));
  }
  ++result.batches;
  result.tokens += validation_->sequences_in(number) * setup_.config.model.seq;
  return sum_of_losses(request, result.stop_request);
}

}  // namespace shard8::train

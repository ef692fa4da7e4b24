// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <vector>

#include "base/exact_sum.hpp"
#include "kernels/moe.hpp"
#include "tensor/transfer.hpp"

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

namespace {

/// Whether a unit's shards hold the next step's weights as soon as the unit is updated. Otherwise FP8 bytes or scales
/// of its weights are set after all updates (Fp8Weights::after_update).
bool complete_when_updated(const model::WeightFormat& weights) {
  return !weights.recipe.on() || (weights.recipe.delayed() && weights.stored());
}

/// Whether one of the next step's first gathers can be of this unit. The first gathers are those of the first visit and
/// of the `prefetch` visits after it.
bool gathered_first(const Setup& setup, const std::vector<fsdp::Visit>& visits, int unit) {
  const std::size_t count = std::min(visits.size(), static_cast<std::size_t>(setup.fsdp.prefetch) + 1);
  return std::any_of(visits.begin(), visits.begin() + static_cast<std::ptrdiff_t>(count),
                     [unit](const fsdp::Visit& visit) { return visit.unit == unit; });
}

}  // namespace

UpdatePlan plan_updates(const Setup& setup) {
  UpdatePlan plan;
  plan.order = model::reductions(setup.config.model);
  if (setup.config.optimizer.clip > 0 || setup.mesh.ranks(base::kSameSequences) > 1) return plan;
  plan.when = UpdatePlan::When::as_reduced;
  if (!complete_when_updated(setup.weights)) return plan;

  // The units that the next step gathers first are reduced last, and are updated in that order. The unit that is
  // reduced just before them is moved to the end: the next step's first gathers run while it is updated.
  const auto visits = model::visits(setup.config.model, setup.weights.recipe, setup.layout.micro_batches);
  const auto first = std::stable_partition(plan.order.begin(), plan.order.end(),
                                           [&](int unit) { return !gathered_first(setup, visits, unit); });
  if (first == plan.order.begin()) return plan;  // every unit is gathered first: none is left to be updated meanwhile
  std::rotate(first - 1, first, plan.order.end());
  plan.gather_before = plan.order.size() - 1;
  return plan;
}

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

ExpertSums::ExpertSums(const Setup& setup, const comm::Mesh& mesh, const model::Activations& activations)
    : setup_(setup),
      mesh_(mesh),
      activations_(activations),
      experts_(static_cast<std::size_t>(setup.dims.experts.experts)),
      sums_(setup.dims.experts.on() ? static_cast<std::size_t>(activations.expert_rows.cols()) : 0),
      own_(static_cast<std::size_t>(activations.expert_rows.count())),
      words_(base::ExactSum::kWords + experts_ * static_cast<std::size_t>(setup.dims.experts.layers)) {}

std::span<const std::uint64_t> ExpertSums::rows() const { return std::span(words_).subspan(base::ExactSum::kWords); }

ExpertStep ExpertSums::sum(operation::Executor& executor) {
  base::ExactSum balance;
  executor.run_on_hosts(operation::Group::world, mesh_.world.size(), words_.size() * sizeof(std::uint64_t), [&] {
    if (executor.computes()) {
      const auto own_balance = executor.value<double>(activations_.balance);
      tensor::to_host(executor.exec(), own_.data(), activations_.expert_rows);
      if (mesh_.place.first(base::kSameSequences)) balance.add(own_balance);
    }
    std::ranges::copy(balance.words(), words_.begin());
    auto to = words_.begin() + base::ExactSum::kWords;
    for (std::size_t layer = 0; layer < own_.size(); layer += sums_)
      to = std::ranges::copy(std::span(own_).subspan(layer, experts_), to).out;
    mesh_.world.all_reduce(words_, comm::Communicator::Reduce::sum);
    std::ranges::copy(std::span(words_).first<base::ExactSum::kWords>(), balance.words().begin());
  });
  ExpertStep step;
  step.balance = balance.value() / static_cast<double>(setup_.config.data.batch);
  if (rows().empty()) return step;
  step.counts = own_counts();
  const auto [least, most] = std::ranges::minmax(rows());
  step.counts.least = static_cast<std::int64_t>(least);
  step.counts.most = static_cast<std::int64_t>(most);
  step.counts.mean = static_cast<double>(std::accumulate(rows().begin(), rows().end(), std::uint64_t{0})) /
                     static_cast<double>(rows().size());
  return step;
}

profile::ExpertCounts ExpertSums::own_counts() const {
  using kernels::MoeSum;
  const model::Dims& d = setup_.dims;
  const auto compute = static_cast<std::int64_t>(tensor::size_of(d.compute));
  constexpr std::int64_t kNumber = sizeof(float);  // a weight or its gradient, sent with each row
  const bool recomputes = setup_.config.model.recompute == deck::Recompute::full;
  profile::ExpertCounts counts{.ranks = d.experts.ranks, .steps = 1};
  counts.layers = d.experts.layers * setup_.layout.micro_batches;
  for (std::int64_t layer = 0; layer < d.experts.layers; ++layer) {
    const auto own = std::span(own_).subspan(static_cast<std::size_t>(layer) * sums_, sums_);
    const auto sum_of = [&](MoeSum sum) -> std::int64_t { return own[experts_ + static_cast<std::size_t>(sum)]; };
    const auto sent =
        std::accumulate(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(experts_), std::int64_t{0});
    counts.sent += sent;
    const std::int64_t received = sum_of(MoeSum::received);
    counts.received += received;
    counts.busiest += sum_of(MoeSum::busiest);
    counts.rounds += sum_of(MoeSum::rounds);
    counts.most_rounds = std::max(counts.most_rounds, sum_of(MoeSum::most_rounds));
    if (d.experts.ranks == 1) continue;
    // Tokens are sent in forward and, where their rows are recomputed, once more in backward; gradients in backward.
    const bool in_fp8 =
        d.experts.sends_fp8 && setup_.weights.recipe.site(d.experts.dense_layers + layer, fp8::Linear::fc1).on();
    const std::int64_t row = d.hidden * (in_fp8 ? 1 : compute), again = recomputes ? sent : sum_of(MoeSum::further);
    counts.dispatched_bytes += (sent + again) * (row + kNumber) + sent * row;
    // The results of the rows that it received, and in backward their gradients with those of the weights.
    counts.combined_bytes += received * (2 * d.hidden * compute + kNumber);
  }
  return counts;
}

}  // namespace shard8::train

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/trainer.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/exact_sum.hpp"
#include "kernels/elementwise.hpp"
#include "model/weight_file.hpp"
#include "tensor/transfer.hpp"
#include "train/state.hpp"

namespace shard8::train {

using profile::Phase;

Trainer::Trainer(const tensor::Exec& exec, const Setup& setup, const comm::Mesh& mesh, State& state,
                 data::Loader& loader, profile::StepTimer& timer)
    : Trainer(std::make_unique<operation::Executor>(exec, timer, [&mesh] { mesh.world.progress(); }), setup, mesh,
              state, &loader) {}

namespace {

std::unique_ptr<operation::Executor> skeleton_executor(const tensor::Exec& exec, const Setup& setup,
                                                       const comm::Mesh& mesh, operation::Waits* waits,
                                                       profile::StepTimer& timer) {
  using operation::Executor;
  if (waits == nullptr) return std::make_unique<Executor>(exec, timer, Executor::WithoutCollectives{});
  return std::make_unique<Executor>(
      exec, timer, [&mesh] { mesh.world.progress(); }, *waits, setup.dims.device);
}

}  // namespace

Trainer::Trainer(const tensor::Exec& exec, const Setup& setup, const comm::Mesh& mesh, State& state,
                 operation::Waits* waits, profile::StepTimer& timer)
    : Trainer(skeleton_executor(exec, setup, mesh, waits, timer), setup, mesh, state, nullptr) {}

Trainer::Trainer(operation::Recorder& recorder, const Setup& setup, const comm::Mesh& mesh, State& state,
                 profile::StepTimer& timer)
    : Trainer(std::make_unique<operation::Executor>(recorder, timer, setup.dims.device), setup, mesh, state, nullptr) {}

Trainer::Trainer(std::unique_ptr<operation::Executor> executor, const Setup& setup, const comm::Mesh& mesh,
                 State& state, data::Loader* loader)
    : executor_(std::move(executor)),
      setup_(setup),
      mesh_(mesh),
      loader_(loader),
      timer_(executor_->timer()),
      state_(state),
      fp8_weights_(*executor_, setup.weights, setup.units, state.units, state.scaling),
      model_(setup.config.model, setup.weights.recipe, setup.dims, setup.place[base::Axis::tensor], state.activations,
             setup.place[base::Axis::expert]),
      replicated_gradients_(optim::replicated_gradients(state.units)),
      visits_(model::visits(setup.config.model, setup.weights.recipe, setup.layout.micro_batches)),
      updates_(plan_updates(setup)),
      norms_(state.units.units().size(), setup.weights.stored()),
      expert_sums_(setup, mesh, state.activations),
      skeleton_(executor_->runs() && loader == nullptr),
      weights_(*executor_, state.units, mesh, fp8_weights_.hooks()),
      gradients_(*executor_, state.units, mesh),
      quantizer_(state.scaling, *executor_, mesh.group(base::AxisSet::tensor),
                 setup.mesh.expert > 1 ? &mesh.group(base::AxisSet::expert) : nullptr),
      libraries_(executor_->computes() && setup.dims.device ? std::make_unique<kernels::Libraries>() : nullptr),
      context_{*executor_,
               mesh.group(base::AxisSet::tensor),
               {state.activations.workspace, libraries_.get()},
               &quantizer_,
               setup.mesh.expert > 1 ? &mesh.group(base::AxisSet::expert) : nullptr} {}

void Trainer::initialise(const io::TensorFile* file) {
  timer_.record(setup_.config.run.steps, setup_.config.run.timing_skip);
  if (!executor_->computes()) return;
  model::initialise(executor_->exec(), state_.units, setup_.units, setup_.config.model.init_seed, file);
  model_.prepare(executor_->exec());
  state_.optimizer.prepare(executor_->exec());
  if (!skeleton_) return;
  make_up_arrivals();
  make_up_tokens();
}

void Trainer::start() {
  if (!executor_->computes()) return;
  state_.scaling.prepare(executor_->exec());
  between_steps([&] { fp8_weights_.initialise(mesh_.group(base::AxisSet::model)); });
}

void Trainer::begin_step() {
  timer_.begin_step();
  executor_->begin_step();
  if (!std::exchange(begun_, false)) weights_.begin_step(visits_);
  clear(state_.activations.loss);
  add_weight_squares();
  if (!setup_.dims.experts.on()) return;
  clear(state_.activations.balance);
  clear(state_.activations.expert_rows);
}

void Trainer::add_weight_squares() {
  if (state_.weight_squares.empty()) return;
  auto phase = timer_.phase(Phase::quantize, "sum_of_scaled_squares");
  clear(state_.weight_squares);
  fp8_weights_.add_squares(state_.weight_squares);
}

void Trainer::clear(const tensor::Tensor& sums) {
  executor_->issue(operation::Kernel{"fill_zero", 1, sums.count(), sums.dtype, sums.dtype}.writes(sums),
                   [&](const tensor::Exec& exec) { kernels::fill_zero(exec, sums); });
}

void Trainer::load(std::int64_t step, std::int64_t micro_batch) {
  step_ = step;
  if (loader_ == nullptr) return;
  auto phase = timer_.phase(Phase::data, "load");
  to_activations(loader_->get(step, micro_batch));
}

void Trainer::to_activations(const data::MicroBatch& batch) {
  const auto& a = state_.activations;
  SHARD8_REQUIRE(static_cast<std::int64_t>(batch.tokens.size()) == a.tokens.count(),
                 "a micro-batch of {} tokens, not {}", batch.tokens.size(), a.tokens.count());
  tensor::to_device(executor_->exec(), a.tokens, batch.tokens.data());
  tensor::to_device(executor_->exec(), a.targets, batch.targets.data());
  tensor::to_device(executor_->exec(), a.token_weights, batch.weights.data());
}

model::Transformer::MicroBatch Trainer::micro_batch_of(std::int64_t step, std::int64_t micro_batch) const {
  model::Transformer::MicroBatch m;
  m.last = micro_batch + 1 == setup_.layout.micro_batches;
  m.scale = static_cast<float>(1.0 / static_cast<double>(tokens_per_step()));
  m.step = step;
  m.sequence_stride = setup_.layout.data_ranks;
  m.first_sequence =
      micro_batch * setup_.layout.micro_batch * m.sequence_stride + setup_.place.rank(base::AxisSet::data);
  return m;
}

void Trainer::forward_backward(std::int64_t micro_batch) {
  const auto m = micro_batch_of(step_, micro_batch);
  model_.forward_backward(context_, weights_, gradients_, m);
}

std::optional<double> Trainer::reduce_and_update(std::int64_t step, double learning_rate) {
  clear(state_.squares);
  if (updates_.when == UpdatePlan::When::after_norm) return update_after_norm(step, learning_rate);
  update_as_reduced(step, learning_rate);
  return std::nullopt;
}

void Trainer::update_as_reduced(std::int64_t step, double learning_rate) {
  for (std::size_t i = 0; i < updates_.order.size(); ++i) {
    gradients_.finish(updates_.order[i]);
    if (updates_.gather_before == i) begin_next_step(step);
    update(updates_.order[i], step, learning_rate, 1);
  }
  gradients_.finish();
}

std::optional<double> Trainer::update_after_norm(std::int64_t step, double learning_rate) {
  const bool clips = state_.optimizer.clips();
  for (const int unit : updates_.order) {
    gradients_.finish(unit);
    if (clips) add_squares(unit, optim::Held::in_parts);
  }
  gradients_.finish();
  {
    auto phase = timer_.phase(Phase::reduce_wait, "sum replicated gradients");
    optim::sum_replicated_gradients(*executor_, replicated_gradients_, mesh_.group(base::kSameSequences));
  }
  std::optional<double> norm;
  if (clips) {
    for (const int unit : updates_.order) add_squares(unit, optim::Held::shared);
    norm = norms_.sum(*executor_, state_.all_squares, mesh_.group(base::AxisSet::model));
  }
  for (const int unit : updates_.order)
    update(unit, step, learning_rate, norm ? state_.optimizer.clip_scale(*norm) : 1);
  return norm;
}

void Trainer::update(int unit, std::int64_t step, double learning_rate, double gradient_scale) {
  if (before_change_) before_change_(unit);
  const operation::At at(*executor_, unit);
  auto phase = timer_.phase(Phase::optimizer, "adamw");
  const auto issue = timer_.issue(profile::Issue::optimizer);
  state_.optimizer.step(*executor_, unit, step, learning_rate, gradient_scale,
                        [this](int u, int parameter, const fsdp::GroupRows& part) {
                          return fp8_weights_.update_outputs(u, parameter, part);
                        });
}

void Trainer::begin_next_step(std::int64_t step) {
  if (begun_ || step + 1 >= setup_.config.run.steps || validates_after(step)) return;
  begun_ = true;
  executor_->gathers_are_ahead();
  weights_.begin_step(visits_);
  auto phase = timer_.phase(Phase::forward);
  weights_.gather_ahead();
}

void Trainer::settle() {
  weights_.wait();
  tensor::finish(executor_->exec());
}

void Trainer::add_squares(int unit, optim::Held held) {
  const operation::At at(*executor_, unit);
  auto phase = timer_.phase(Phase::optimizer, "sum_of_squares");
  optim::add_squares(*executor_, state_.squares, state_.units, unit, held);
}

double Trainer::norm_of_update() {
  {
    auto phase = timer_.phase(Phase::optimizer, "sum_of_squares");
    state_.optimizer.add_squares(*executor_, state_.squares);
  }
  return norms_.sum(*executor_, state_.all_squares, mesh_.group(base::AxisSet::model));
}

void Trainer::collect_timings() {
  if (timer_.collect_timings()) mesh_.world.record_device_calls();
}

double Trainer::learning_rate(std::int64_t step) const { return optim::learning_rate(setup_.config.optimizer, step); }

void Trainer::quantize_weights() {
  if (!setup_.weights.recipe.on()) return;
  {
    auto phase = timer_.phase(Phase::reduce_wait, "amaxes");
    fp8_weights_.reduce_amaxes(mesh_.group(base::AxisSet::model));
    state_.scaling.reduce(*executor_, mesh_.world);
  }
  if (before_change_) before_change_(scaling_group(setup_));
  auto phase = timer_.phase(Phase::quantize, "quantize_weights");
  fp8_weights_.after_update();
  state_.scaling.update(*executor_);
}

double Trainer::mean_loss(std::uint64_t& stop_request) const {
  const double sum = sum_of_losses(stop_request_, stop_request);
  return skeleton_ ? 0 : sum / static_cast<double>(tokens_per_step());
}

/// One all-reduce over all ranks sums the loss, to which tensor rank 0 of each data rank adds, and counts the ranks
/// that have each stop request. The loss is added without rounding, so it does not depend on the mesh of data ranks.
double Trainer::sum_of_losses(const std::function<std::uint64_t()>& request, std::uint64_t& stop_request) const {
  auto phase = timer_.phase(Phase::reduce_wait, "loss");
  base::ExactSum loss;
  // The words of the loss, then for each stop request how many ranks have it.
  std::array<std::uint64_t, base::ExactSum::kWords + kStopRequests> sums{};
  const auto requests = std::span(sums).last<kStopRequests>();
  executor_->run_on_hosts(operation::Group::world, mesh_.world.size(), sizeof(sums), [&] {
    const auto own_sum = executor_->value<double>(state_.activations.loss);
    const std::uint64_t number = request ? request() : 0;
    SHARD8_REQUIRE(number < kStopRequests, "a rank's stop request is {}, stop requests are below {}", number,
                   kStopRequests);
    requests[number] = 1;
    if (mesh_.place.first(base::kSameSequences)) loss.add(own_sum);
    std::ranges::copy(loss.words(), sums.begin());
    mesh_.world.all_reduce(sums, comm::Communicator::Reduce::sum);
    std::ranges::copy(std::span(sums).first<base::ExactSum::kWords>(), loss.words().begin());
  });
  stop_request = 0;
  for (std::uint64_t n = 1; n < kStopRequests; ++n)
    if (requests[n] > 0) stop_request = n;
  return loss.value();
}

double Trainer::end_step() {
  const double seconds = timer_.end_step();
  if (!executor_->runs()) return 0;
  if (!std::exchange(first_step_over_, true)) {  // lists get their memory here, so that no later step allocates
    collect_timings();
    mesh_.world.first_step_over();
  }
  return seconds;
}

}  // namespace shard8::train

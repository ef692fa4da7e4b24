// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/trainer.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/elementwise.hpp"
#include "model/initialise.hpp"

namespace shard8::train {

using profile::Phase;
using tensor::Tensor;

Trainer::Trainer(const tensor::Exec& exec, const Setup& setup, const comm::Mesh& mesh, data::Loader& loader,
                 profile::StepTimer& timer)
    : exec_(exec),
      setup_(setup),
      mesh_(mesh),
      loader_(loader),
      timer_(timer),
      state_(setup, tensor::ArenaSet(state_bytes(setup))),
      fp8_weights_(exec, setup_.weights, setup_.units, state_.units, state_.scaling),
      model_(setup.config.model, setup.weights.recipe, setup.dims, setup.place.tensor, state_.activations),
      replicated_(setup.replicated()),
      weights_(exec, state_.units, mesh.shard, timer, fp8_weights_.hooks()),
      gradients_(exec, state_.units, mesh.shard, mesh.replicate, timer),
      quantizer_(state_.scaling, exec, mesh.tensor, timer),
      context_{exec,       mesh.tensor, timer, state_.activations.workspace, [&mesh] { mesh.world.progress(); },
               &quantizer_} {}

void Trainer::initialise(const io::TensorFile* file) {
  model::initialise(exec_, state_.units, setup_.units, setup_.place.shard, setup_.config.model.init_seed, file);
  model_.prepare(exec_);
  state_.optimizer.prepare(exec_);
  state_.scaling.prepare(exec_);
  fp8_weights_.initialise(mesh_.model);
}

void Trainer::load(std::int64_t step, std::int64_t micro_batch) {
  auto phase = timer_.phase(Phase::data);
  const data::MicroBatch batch = loader_.get(step, micro_batch);
  const auto& a = state_.activations;
  SHARD8_REQUIRE(static_cast<std::int64_t>(batch.tokens.size()) == a.tokens.count(),
                 "a micro-batch of {} tokens, not {}", batch.tokens.size(), a.tokens.count());
  std::memcpy(a.tokens.as<std::int32_t>(), batch.tokens.data(), a.tokens.bytes());
  std::memcpy(a.targets.as<std::int32_t>(), batch.targets.data(), a.targets.bytes());
  std::memcpy(a.token_weights.as<float>(), batch.weights.data(), a.token_weights.bytes());
}

double Trainer::forward_backward(std::int64_t micro_batch) {
  model::Transformer::MicroBatch m;
  m.first = micro_batch == 0;
  m.last = micro_batch + 1 == setup_.layout.micro_batches;
  m.scale = static_cast<float>(1.0 / static_cast<double>(loader_.tokens_per_step()));
  return model_.forward_backward(context_, {weights_, fp8_weights_}, gradients_, m);
}

void Trainer::reduce_gradients() {
  gradients_.finish();
  auto phase = timer_.phase(Phase::reduce_wait);
  optim::sum_replicated_gradients(state_.units, replicated_, mesh_.tensor);
}

double Trainer::gradient_norm() {
  return optim::gradient_norm(exec_, state_.units, replicated_, mesh_.model, setup_.place.tensor, timer_);
}

void Trainer::update(std::int64_t step, double learning_rate, double gradient_norm) {
  auto phase = timer_.phase(Phase::optimizer);
  state_.optimizer.step(exec_, step, learning_rate, state_.optimizer.clip_scale(gradient_norm),
                        [this](int unit, int parameter) { return fp8_weights_.update_outputs(unit, parameter); });
}

void Trainer::quantize_weights() {
  if (!setup_.weights.recipe.on()) return;
  {
    auto phase = timer_.phase(Phase::reduce_wait);
    fp8_weights_.reduce_amaxes(mesh_.model);
    state_.scaling.reduce(mesh_.world);
  }
  auto phase = timer_.phase(Phase::quantize);
  fp8_weights_.after_update();
  state_.scaling.update(exec_);
}

double Trainer::mean_loss(double local_sum) const {
  auto phase = timer_.phase(Phase::reduce_wait);
  std::array<double, 1> sum{local_sum};
  mesh_.data.all_reduce(sum, comm::Communicator::Reduce::sum);
  return sum[0] / static_cast<double>(loader_.tokens_per_step());
}

}  // namespace shard8::train

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "comm/mesh.hpp"
#include "data/batch.hpp"
#include "fsdp/gradient_store.hpp"
#include "fsdp/weight_store.hpp"
#include "io/tensor_file.hpp"
#include "kernels/libraries.hpp"
#include "model/transformer.hpp"
#include "optim/gradient_norm.hpp"
#include "profile/step_timer.hpp"
#include "train/state.hpp"
#include "train/update.hpp"

namespace shard8::train {

/// The figures of one step, the same on every rank but for `seconds`.
struct StepResult {
  std::int64_t step = 0;     ///< from 0
  double loss = 0;           ///< mean over the global batch's tokens
  double gradient_norm = 0;  ///< before clipping
  double learning_rate = 0;
  std::int64_t tokens = 0;  ///< of the global batch
  double seconds = 0;       ///< on this rank
};

/// The step of one rank's training: the model over this rank's memory, with its weights, gradients and optimizer. What
/// the constructor is given must outlive the trainer. Assembly makes one.
class Trainer {
 public:
  /// Communicates nothing.
  Trainer(const tensor::Exec& exec, const Setup& setup, const comm::Mesh& mesh, State& state, data::Loader& loader,
          profile::StepTimer& timer);

  /// Fills this rank's master weights, from `file` or at random where it is null, and the optimizer's state.
  /// Communicates nothing.
  void initialise(const io::TensorFile* file);
  /// Finds the scales of the first step and casts the weights by them, with an FP8 recipe. After initialise().
  /// Collective.
  void start();
  /// Runs forward and backward of made-up tokens on the memory of the run, on a device, after start() and before the
  /// first step. Every matrix product that has no algorithm yet gets one, by timing once those that the library offers.
  /// What cannot be computed on this device fails here, and libraries set themselves up. Weights stay; scales change,
  /// so start() must follow. Collective.
  void rehearse(kernels::Tuning tuning);

  /// Trains step number `step`. Collective.
  StepResult step(std::int64_t step);

  int ranks() const { return mesh_.world.size(); }
  const State& state() const { return state_; }
  State& state() { return state_; }
  const fsdp::WeightStore& weights() const { return weights_; }
  const model::Fp8Weights& fp8_weights() const { return fp8_weights_; }
  /// From now on the observer, which must outlive the trainer, is told of what is computed; null: nobody is.
  void observe(const model::Observer* observer) { context_.observer = observer; }
  /// Null on hosts.
  kernels::Libraries* libraries() { return libraries_.get(); }

 private:
  // What a step calls, in its order (step.cpp).
  void begin_step();
  std::int64_t micro_batches() const { return setup_.layout.micro_batches; }
  void load(std::int64_t step, std::int64_t micro_batch);
  void forward_backward(std::int64_t micro_batch);
  /// Finds the times of the step before this one, if there was one.
  void collect_timings();
  double learning_rate(std::int64_t step) const;
  /// The norm of the gradients before clipping, if the step clips.
  std::optional<double> reduce_and_update(std::int64_t step, double learning_rate);
  void quantize_weights();
  /// Begins the step after this one, if there is one, with its first gathers, unless it has begun.
  void begin_next_step(std::int64_t step);
  /// The norm of the gradients, from the squares that AdamW wrote. For a step that does not clip: at its end, so that a
  /// device has work until then.
  double norm_of_update();
  /// The mean over the global batch's tokens.
  double mean_loss() const;
  /// Seconds of the step.
  double end_step();

  void update_as_reduced(std::int64_t step, double learning_rate);
  std::optional<double> update_after_norm(std::int64_t step, double learning_rate);
  void update(int unit, std::int64_t step, double learning_rate, double gradient_scale);
  void add_squares(int unit, optim::Held held);
  void rehearse_step(float scale);

  const tensor::Exec& exec_;
  const Setup& setup_;
  const comm::Mesh& mesh_;
  data::Loader& loader_;
  profile::StepTimer& timer_;
  State& state_;
  model::Fp8Weights fp8_weights_;
  model::Transformer model_;
  optim::Replicated replicated_;
  std::vector<tensor::Tensor> replicated_gradients_;
  std::vector<fsdp::Visit> visits_;  ///< the order in which a step uses units
  UpdatePlan updates_;
  bool begun_ = false;  ///< begin_next_step() has begun the next step
  bool first_step_over_ = false;
  fsdp::WeightStore weights_;
  fsdp::GradientStore gradients_;
  fp8::Quantizer quantizer_;
  std::unique_ptr<kernels::Libraries> libraries_;
  model::Context context_;
};

}  // namespace shard8::train

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "comm/device.hpp"
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

/// What one step did, the same on every rank.
struct StepResult {
  std::int64_t step = 0;     ///< from 0
  double loss = 0;           ///< mean over the global batch's tokens
  double gradient_norm = 0;  ///< before clipping
  double learning_rate = 0;
  std::int64_t tokens = 0;  ///< of the global batch
  double seconds = 0;       ///< on this rank
};

/// One rank's training: its memory, the model over it, and the step. The mesh, the data, the timer
/// and the execution space are the caller's and must outlive it.
class Trainer {
 public:
  Trainer(const tensor::Exec& exec, const Setup& setup, const comm::Mesh& mesh, data::Loader& loader,
          profile::StepTimer& timer);

  /// Initial weights (a file, or null for random ones) and optimizer state. On a device also a
  /// rehearsal, see rehearse(), with the given search for products that have no algorithm yet.
  void initialise(const io::TensorFile* file, kernels::Tuning tuning = kernels::Tuning::candidates);

  StepResult step(std::int64_t step);

  int ranks() const { return mesh_.world.size(); }
  const State& state() const { return state_; }
  const fsdp::WeightStore& weights() const { return weights_; }
  const model::Fp8Weights& fp8_weights() const { return fp8_weights_; }
  /// Null on hosts.
  const kernels::Libraries* libraries() const { return libraries_.get(); }

 private:
  void start_state();
  void rehearse(kernels::Tuning tuning);
  void rehearse_step(float scale);
  void load(std::int64_t step, std::int64_t micro_batch);
  void forward_backward(std::int64_t micro_batch);
  /// The norm of the gradients before clipping, if it clips.
  std::optional<double> reduce_and_update(std::int64_t step, double learning_rate);
  void update_as_reduced(std::int64_t step, double learning_rate);
  std::optional<double> update_after_norm(std::int64_t step, double learning_rate);
  void update(int unit, std::int64_t step, double learning_rate, double gradient_scale);
  void add_squares(int unit, optim::Held held);
  /// Finds what was measured of the step before, if there was one.
  void look_back();
  /// Begins the step after this one, if there is one, with its first gathers, unless it has begun.
  void begin_next_step(std::int64_t step);
  /// That norm, of the squares that the update left: for a step that does not clip, at its end, so that the
  /// device has its work until then.
  double norm_of_update();
  void quantize_weights();
  double mean_loss() const;

  const tensor::Exec& exec_;
  Setup setup_;
  const comm::Mesh& mesh_;
  data::Loader& loader_;
  profile::StepTimer& timer_;
  std::shared_ptr<comm::DeviceMemory> gather_memory_, exchange_memory_;
  State state_;
  std::shared_ptr<comm::DeviceMemory> reduce_memory_;
  model::Fp8Weights fp8_weights_;
  model::Transformer model_;
  optim::Replicated replicated_;
  std::vector<tensor::Tensor> replicated_gradients_;
  std::vector<fsdp::Visit> visits_;  ///< the order in which a step uses units
  UpdatePlan updates_;
  bool begun_ = false;  ///< the next step
  bool first_step_over_ = false;
  fsdp::WeightStore weights_;
  fsdp::GradientStore gradients_;
  fp8::Quantizer quantizer_;
  std::unique_ptr<kernels::Libraries> libraries_;
  model::Context context_;
};

}  // namespace shard8::train

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "comm/mesh.hpp"
#include "data/batch.hpp"
#include "fsdp/gradient_store.hpp"
#include "fsdp/weight_store.hpp"
#include "io/tensor_file.hpp"
#include "kernels/libraries.hpp"
#include "model/activations.hpp"
#include "model/fp8_weights.hpp"
#include "model/transformer.hpp"
#include "operation/executor.hpp"
#include "optim/adamw.hpp"
#include "profile/figures.hpp"
#include "profile/step_timer.hpp"
#include "train/setup.hpp"
#include "train/state.hpp"

namespace shard8::train {

/// How the experts of all layers shared a step's tokens. A row is a pair of a token and one of its experts.
struct ExpertStep {
  double balance = 0;  ///< the balance loss, which is not part of the loss: mean over sequences, sum over layers
  profile::ExpertCounts
      counts{};  ///< of this step: of this rank, but for the tokens of experts, which are of all ranks
};

/// Sums what a step's layers counted of their experts over all ranks. Takes memory when it is made alone.
class ExpertSums {
 public:
  /// The arguments must outlive the object.
  ExpertSums(const Setup& setup, const comm::Mesh& mesh, const model::Activations& activations);

  /// The sums of the step whose micro-batches are over. Waits for the execution space. Collective.
  ExpertStep sum(operation::Executor& executor);
  /// By layer with experts, then by expert: the rows of the last sum(), over all ranks.
  std::span<const std::uint64_t> rows() const;

 private:
  /// What this rank counted of all layers in a step. Bytes are those of the rows that are dispatched and combined.
  profile::ExpertCounts own_counts() const;

  const Setup& setup_;
  const comm::Mesh& mesh_;
  const model::Activations& activations_;
  std::size_t experts_, sums_;        ///< of a layer: its experts, and its numbers in own_
  std::vector<std::int32_t> own_;     ///< Activations::expert_rows
  std::vector<std::uint64_t> words_;  ///< of base::ExactSum, then rows
};

/// What a validation found. All but `seconds` are the same on every rank.
struct Validation {
  std::optional<double> loss{};    ///< mean over its tokens; nothing: it was stopped before its end
  std::int64_t batches = 0;        ///< batches that were computed
  std::int64_t tokens = 0;         ///< of these batches, without padding
  double seconds = 0;              ///< on this rank
  std::uint64_t stop_request = 0;  ///< the largest of all ranks' at the end of its last batch
};

/// The figures of one step. All but `seconds` are the same on every rank.
struct StepResult {
  std::int64_t step = 0;     ///< from 0
  double loss = 0;           ///< mean over the global batch's tokens
  double gradient_norm = 0;  ///< before clipping
  double learning_rate = 0;
  std::int64_t tokens = 0;                 ///< of the global batch
  double seconds = 0;                      ///< on this rank
  std::uint64_t stop_request = 0;          ///< the largest of all ranks' (Trainer::stop_requests_from)
  std::optional<ExpertStep> experts{};     ///< of a model with experts
  std::optional<Validation> validation{};  ///< behind this step (LoopHooks::validate)
};

/// When a step updates each unit, and when it issues the first gathers of the next step.
struct UpdatePlan {
  enum class When : std::uint8_t {
    as_reduced,  ///< a unit is updated as soon as its own gradients are reduced
    after_norm,  ///< all units are updated after all gradients are reduced, summed over tensor ranks and normed
  };
  When when = When::after_norm;
  std::vector<int> order;  ///< every unit once
  /// Position in `order`: the first gathers of the next step are issued just before this update, so that they
  /// are communicated while it computes. None: they are issued at the end of the step. No gather reads the shards of a
  /// unit that is updated at this position or later.
  std::optional<std::size_t> gather_before;
};

/// The plan of every step of a run. The plan is as_reduced without clipping and with one tensor rank: clipping needs
/// the norm of all gradients first, and tensor ranks sum the gradients of replicated parameters after all reductions.
UpdatePlan plan_updates(const Setup& setup);

/// Batches of a validation: run.validate_batches, or all that the data have.
std::int64_t validation_batches(const data::Loader& loader, const deck::RunConfig& run);
/// Tokens of these batches, without padding.
std::int64_t validation_tokens(const data::Loader& loader, const deck::RunConfig& run);

/// Trains on one rank, step by step: the model over this rank's memory, with its weights, gradients and optimizer. What
/// the constructor is given must outlive the trainer. Assembly makes one. Call initialise(), start(), on a device
/// rehearse() and start() once more, then step().
class Trainer {
 public:
  /// Communicates nothing.
  Trainer(const tensor::Exec& exec, const Setup& setup, const comm::Mesh& mesh, State& state, data::Loader& loader,
          profile::StepTimer& timer);
  /// A trainer of a skeleton run, as run.skeleton says, without data. `waits`, which must outlive it, is for a skeleton
  /// of the communication only; otherwise null. Steps have no loss and no norm: both are 0.
  Trainer(const tensor::Exec& exec, const Setup& setup, const comm::Mesh& mesh, State& state, operation::Waits* waits,
          profile::StepTimer& timer);
  /// A trainer whose step() is recorded and does nothing. `timer` has no clock; `mesh` and the memory of `state` may be
  /// planned only (comm::mesh_on_paper, tensor::ArenaSet::measure). step() is its only function.
  Trainer(operation::Recorder& recorder, const Setup& setup, const comm::Mesh& mesh, State& state,
          profile::StepTimer& timer);

  /// Fills this rank's master weights, from `file` or at random if it is null, and the optimizer's state; in a skeleton
  /// of the communication nothing. Communicates nothing. Errors are those of model::initialise.
  void initialise(const io::TensorFile* file);
  /// With an FP8 recipe, finds the scales of the first step and casts the weights with them; otherwise nothing. To be
  /// called after initialise(). Collective.
  void start();
  /// On a device: runs forward and backward of made-up tokens in the memory of the run, so that every matrix product
  /// that has no algorithm gets one, as `tuning` says, libraries set themselves up, and what this device cannot compute
  /// fails here. To be called after start() and before the first step. Weights stay; scales change, so start() must
  /// follow. Must not be called on hosts. Collective.
  void rehearse(kernels::Tuning tuning);

  /// Trains the step of this number, from 0, which must be one more than that of the call before. Collective. Errors of
  /// Loader::get() and of the collectives are thrown on the rank where they happen.
  StepResult step(std::int64_t step);
  /// From now on steps that validate_after() names leave the first gathers of the next step to the next step, so that a
  /// validation of `loader`'s data may follow them. To be called before the first step; the setup must validate
  /// (Setup::validates), and the loader must outlive the trainer.
  void validate_with(data::Loader& loader);
  /// Whether a validation is due behind the step: each run.validate_every steps, and behind the last one.
  bool validates_after(std::int64_t step) const;
  /// The loss on all batches of validation data, or on run.validate_batches of them, with the weights and FP8 scales
  /// that training has at the moment. Nothing that training reads changes: no weight, amax, scale or history. The time
  /// of a validation counts for no step. To be called behind a step after which a validation is due (validates_after),
  /// and before the next step. `request` gives the rank's stop request at the end of each batch; all ranks stop where
  /// one of them is not 0. Collective. Errors are those of step().
  Validation validate(const std::function<std::uint64_t()>& request);

  /// Stop requests are numbers below this one. 0 requests nothing.
  static constexpr std::uint64_t kStopRequests = 8;
  /// From now on every rank calls `request` at the end of each step, when the device is done, and gets the rank's stop
  /// request. The requests are all-reduced with the loss: all ranks see the largest one (StepResult::stop_request) and
  /// so agree on whether to stop. An empty `request` gives 0.
  void stop_requests_from(std::function<std::uint64_t()> request) { stop_request_ = std::move(request); }
  /// Waits for the gathers of the next step that the last step has begun, and for the device. A next step may follow.
  /// Collective.
  void settle();

  int ranks() const { return mesh_.world.size(); }
  const Setup& setup() const { return setup_; }
  const State& state() const { return state_; }
  State& state() { return state_; }
  const fsdp::WeightStore& weights() const { return weights_; }
  /// By layer with experts, then by expert: how many tokens chose the expert in the last step, over all ranks.
  std::span<const std::uint64_t> expert_rows() const { return expert_sums_.rows(); }
  /// The 2-norm of each unit's gradients in the last step, before clipping, in the order of model::make_units(). A unit
  /// without parameters has 0.
  std::span<const double> unit_norms() const { return norms_.of_gradients(); }
  /// The 2-norm of each unit's weights kept in FP8 with which the last step began, in the same order; a weight with
  /// two copies counts with both (Fp8Weights::add_squares). 0 for a unit without such weights. Empty if the deck keeps
  /// none.
  std::span<const double> weight_norms() const { return norms_.of_weights(); }
  const model::Fp8Weights& fp8_weights() const { return fp8_weights_; }
  /// From now on `tell` is called with a group of persistent tensors (StateTensor::group) before a step gives the
  /// execution space work that changes these tensors. Empty: nothing is called.
  void before_change(std::function<void(int group)> tell) { before_change_ = std::move(tell); }
  /// From now on experts' rows are pushed through `memory`, of the expert group, by kernels on `exec`, on the memory's
  /// stream. `memory` and `exec` must outlive the trainer. Null: nothing changes.
  void push_rows_through(comm::PushMemory* memory, const tensor::Exec* exec) {
    context_.push_memory = memory;
    context_.push_exec = exec;
  }
  /// Tells `observer` of products and attention from now on (operation::Observer); null: nobody. `observer` must
  /// outlive the trainer or be replaced before its end.
  void observe(const operation::Observer* observer) { executor_->observe(observer); }
  /// Null on hosts.
  kernels::Libraries* libraries() { return libraries_.get(); }

 private:
  // What a step calls, in its order (step.cpp).
  void begin_step();
  std::int64_t micro_batches() const { return setup_.layout.micro_batches; }
  void load(std::int64_t step, std::int64_t micro_batch);
  void to_activations(const data::MicroBatch& batch);
  void validate(const std::function<std::uint64_t()>& request, Validation& result);
  double validate_batch(std::int64_t number, const std::function<std::uint64_t()>& request, Validation& result);
  void forward_backward(std::int64_t micro_batch);
  model::Transformer::MicroBatch micro_batch_of(std::int64_t step, std::int64_t micro_batch) const;
  /// Reads the times of the step before this one, if there was one.
  void collect_timings();
  double learning_rate(std::int64_t step) const;
  /// Finishes the reductions of gradients and updates all units, in the order of updates_. Returns the norm of the
  /// gradients before clipping if the deck clips, otherwise nothing.
  std::optional<double> reduce_and_update(std::int64_t step, double learning_rate);
  void quantize_weights();
  /// Begins the step after this one, if there is one, with its first gathers, unless it has begun.
  void begin_next_step(std::int64_t step);
  /// The norm of the gradients, from the squares that AdamW wrote, for a step that does not clip. Called at the end of
  /// the step, because it waits for the device.
  double norm_of_update();
  /// Returns the mean of the loss over the tokens of the global batch. Writes the largest stop request of
  /// all ranks to `stop_request`.
  double mean_loss(std::uint64_t& stop_request) const;
  /// The sum that mean_loss() divides. `request` gives this rank's stop request; empty: 0.
  double sum_of_losses(const std::function<std::uint64_t()>& request, std::uint64_t& stop_request) const;
  /// Seconds of the step.
  double end_step();

  void update_as_reduced(std::int64_t step, double learning_rate);
  std::optional<double> update_after_norm(std::int64_t step, double learning_rate);
  void update(int unit, std::int64_t step, double learning_rate, double gradient_scale);
  void add_squares(int unit, optim::Held held);
  /// Sums the squares of the weights kept in FP8, before the step changes them.
  void add_weight_squares();
  void make_up_tokens();
  void make_up_arrivals();
  void rehearse_step(float scale);
  Trainer(std::unique_ptr<operation::Executor> executor, const Setup& setup, const comm::Mesh& mesh, State& state,
          data::Loader* loader);

  std::int64_t tokens_per_step() const { return setup_.config.data.batch * setup_.config.model.seq; }
  /// Sets all elements of `sums`, to which a step adds, to zero: the loss, counts of experts, sums of squares.
  void clear(const tensor::Tensor& sums);
  /// Work between two steps, which no step counts.
  template <class Work>
  void between_steps(const Work& work) {
    timer_.begin_uncounted();
    work();
    timer_.discard_step();
  }

  std::unique_ptr<operation::Executor> executor_;
  const Setup& setup_;
  const comm::Mesh& mesh_;
  data::Loader* loader_;                ///< null: the trainer only records, or is that of a skeleton
  data::Loader* validation_ = nullptr;  ///< null: the trainer does not validate
  profile::StepTimer& timer_;
  State& state_;
  model::Fp8Weights fp8_weights_;
  model::Transformer model_;
  std::vector<tensor::Tensor> replicated_gradients_;
  std::vector<fsdp::Visit> visits_;  ///< the order in which a step uses units
  UpdatePlan updates_;
  optim::StepNorms norms_;
  std::function<std::uint64_t()> stop_request_;  ///< empty: 0
  ExpertSums expert_sums_;
  std::int64_t step_ = 0;  ///< whose micro-batches are loaded
  const bool skeleton_;
  bool begun_ = false;  ///< begin_next_step() has begun the next step
  bool first_step_over_ = false;
  fsdp::WeightStore weights_;
  fsdp::GradientStore gradients_;
  fp8::Quantizer quantizer_;
  std::unique_ptr<kernels::Libraries> libraries_;
  std::function<void(int group)> before_change_;
  model::Context context_;
};

}  // namespace shard8::train

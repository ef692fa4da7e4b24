// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/operations.hpp"

#include <algorithm>
#include <utility>

#include "fp8/scaling_state.hpp"
#include "kernels/adamw.hpp"
#include "model/transformer.hpp"
#include "model/unit_operations.hpp"
#include "train/trainer.hpp"
#include "train/update.hpp"

namespace shard8::train {

using model::Group;
using model::Operation;
using model::Stream;
using profile::Collective;
using profile::Phase;
using tensor::DType;
using tensor::Tensor;

namespace {

/// Writes the operations of one step. Its functions mirror those of Trainer with the same names.
class StepOperations {
 public:
  StepOperations(const Setup& setup, const fsdp::UnitBuffers& buffers, const StepOfRun& step,
                 model::OperationWriter::Sink sink)
      : setup_(setup),
        buffers_(buffers),
        step_(step),
        updates_(plan_updates(setup)),
        visits_(model::visits(setup.config.model, setup.weights.recipe, setup.layout.micro_batches)),
        out_(std::move(sink)),
        modules_(
            out_, setup.dims, setup.weights.recipe,
            {setup.config.model.recompute, setup.config.model.tie_embeddings, setup.config.model.layers, step.first}),
        weights_(out_, buffers, setup.units, setup.weights),
        gradients_(out_, buffers),
        transformer_(out_, setup.config.model, setup.weights.recipe, modules_, weights_, gradients_) {}

  void write() {
    weights_.begin_step(visits_, !step_.first);
    fill_zero_of_a_double();
    for (std::int64_t m = 0; m < setup_.layout.micro_batches; ++m)
      transformer_.forward_backward(m == 0, m + 1 == setup_.layout.micro_batches);
    fill_zero_of_a_double();
    if (updates_.when == UpdatePlan::When::as_reduced)
      update_as_reduced();
    else
      update_after_norm();
    quantize_weights();
    if (!updates_.gather_before) begin_next_step();
    if (!clips()) norm_of_update();
    sum_of_hosts(Group::world, setup_.mesh.ranks(), Trainer::kAsked);  // the loss, and who asks to stop
  }
  const std::vector<int>& ahead() const { return out_.ahead(); }

 private:
  bool clips() const { return setup_.config.optimizer.clip > 0; }
  int model_ranks() const { return setup_.mesh.ranks(Group::model); }

  /// Clears the step's loss or its sum of squares.
  void fill_zero_of_a_double() {
    out_.site = {};
    out_.kernel({"fill_zero", 1, sizeof(double), DType::u8, DType::u8}, 0, sizeof(double));
  }

  void update_as_reduced() {
    for (std::size_t i = 0; i < updates_.order.size(); ++i) {
      gradients_.finish(updates_.order[i]);
      if (updates_.gather_before == i) begin_next_step();
      update(updates_.order[i]);
    }
    gradients_.finish();
  }

  void update_after_norm() {
    for (const int unit : updates_.order) {
      gradients_.finish(unit);
      if (clips()) add_squares(unit, false);
    }
    gradients_.finish();
    sum_replicated_gradients();
    if (clips()) {
      for (const int unit : updates_.order) add_squares(unit, true);
      sum_of_hosts(Group::model, model_ranks());
    }
    for (const int unit : updates_.order) update(unit);
  }

  void add_squares(int unit, bool replicated) {
    out_.site = {unit, {}};
    out_.phase = Phase::optimizer;
    const auto& parameters = setup_.units[static_cast<std::size_t>(unit)].parameters;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      if (parameters[p].sharing.summed_last().empty() == replicated || !buffers_.counts(unit, p)) continue;
      const Tensor& gradient = buffers_.gradient(unit)[p];
      out_.kernel({"sum_of_squares", gradient.rows(), gradient.cols(), DType::fp32, DType::fp32}, gradient.bytes(), 0);
    }
  }

  void sum_replicated_gradients() {
    out_.site = {};
    out_.phase = Phase::reduce_wait;
    Operation::Collective c{Collective::all_reduce, base::kSameSequences, setup_.mesh.ranks(base::kSameSequences)};
    c.items = 0;
    for (std::size_t u = 0; u < setup_.units.size(); ++u)
      for (std::size_t p = 0; p < setup_.units[u].parameters.size(); ++p) {
        if (setup_.units[u].parameters[p].sharing.summed_last().empty()) continue;
        c.parts.push_back({DType::fp32, buffers_.gradient(static_cast<int>(u))[p].bytes()});
        ++c.items;
      }
    out_.collective(c, Stream::compute);
  }

  /// A double that the hosts sum by MPI.
  void sum_of_hosts(Group group, int ranks, std::uint64_t doubles = 1) {
    out_.site = {};
    out_.phase = Phase::reduce_wait;
    Operation::Collective c{Collective::all_reduce, group, ranks};
    c.parts.push_back({DType::u8, doubles * sizeof(double)});
    c.host_values = true;
    out_.collective(c, Stream::compute);
  }

  /// AdamW of a unit, in launches of up to kernels::kAdamwAtOnce parameters.
  void update(int unit) {
    out_.site = {unit, {}};
    out_.phase = Phase::optimizer;
    const DType master = fsdp::master_dtype(setup_.fsdp);
    const std::uint64_t moment = 2 * tensor::size_of(model::dtype_of(setup_.config.optimizer.moments));
    const std::uint64_t weight = sizeof(float);  // with its remainder
    const auto& masters = buffers_.master(unit);
    for (std::size_t first = 0; first < masters.size(); first += kernels::kAdamwAtOnce) {
      const std::size_t end = std::min(masters.size(), first + kernels::kAdamwAtOnce);
      std::int64_t elements = 0;
      std::uint64_t cast = 0;
      for (std::size_t p = first; p < end; ++p) {
        elements += masters[p].count();
        if (cast_by_update(unit, p)) cast += static_cast<std::uint64_t>(masters[p].count());
      }
      const auto n = static_cast<std::uint64_t>(elements);
      out_.kernel({"adamw_step", elements, 1, DType::fp32, master}, n * (weight + moment + sizeof(float)),
                  n * (weight + moment) + cast);
    }
  }

  bool in_fp8(int unit, std::size_t parameter) const {
    const auto& spec = setup_.units[static_cast<std::size_t>(unit)];
    return setup_.weights.site(spec, spec.parameters[parameter]).on();
  }
  bool cast_by_update(int unit, std::size_t parameter) const {
    return in_fp8(unit, parameter) && setup_.weights.recipe.delayed() && setup_.weights.primary_fp8;
  }

  void quantize_weights() {
    const fp8::Recipe& recipe = setup_.weights.recipe;
    if (!recipe.on()) return;
    out_.site = {};
    out_.phase = Phase::reduce_wait;
    const std::int64_t weights = recipe.layers * fp8::kLinears;
    if (recipe.kind == deck::Recipe::current) reduce_amaxes(Group::model, model_ranks(), weights);
    if (recipe.delayed()) reduce_amaxes(Group::world, setup_.mesh.ranks(), weights * fp8::kRoles);
    out_.phase = Phase::quantize;
    if (recipe.kind == deck::Recipe::current) per_matrix("scale_of_amax", weights, 1);
    if (!recipe.delayed() && setup_.weights.primary_fp8) store_weights();
    for (int role = 0; recipe.delayed() && role < fp8::kRoles; ++role)
      per_matrix("delayed_update", weights, recipe.amax_history);
  }

  void reduce_amaxes(Group group, int ranks, std::int64_t matrices) {
    Operation::Collective c{Collective::all_reduce, group, ranks};
    c.parts.push_back({DType::i32, static_cast<std::uint64_t>(matrices) * sizeof(std::int32_t)});
    out_.collective(c, Stream::compute);
  }

  /// The kernel `name`, which finds the scales of `matrices` matrices, each from `amaxes` amaxes.
  void per_matrix(std::string_view name, std::int64_t matrices, std::int64_t amaxes) {
    out_.site = {};
    const auto n = static_cast<std::uint64_t>(matrices);
    out_.kernel({name, matrices, 1, DType::i32, DType::fp32}, n * static_cast<std::uint64_t>(amaxes) * sizeof(float),
                n * sizeof(float));
  }

  /// The casts of this rank's masters to stored FP8 shards.
  void store_weights() {
    for (std::size_t u = 0; u < setup_.units.size(); ++u)
      for (std::size_t p = 0; p < setup_.units[u].parameters.size(); ++p) {
        const int unit = static_cast<int>(u);
        if (!in_fp8(unit, p)) continue;
        const Tensor& master = buffers_.master(unit)[p];
        std::uint64_t written = 0;
        for (const auto* copy : {&buffers_.stored(unit)[p].forward, &buffers_.stored(unit)[p].backward})
          for (const Tensor& piece : *copy) written += piece.bytes();
        out_.site = {unit, setup_.units[u].parameters[p].linear};
        out_.kernel({setup_.weights.recipe.per_tensor() ? "quantize" : "quantize_blocks", master.rows(), master.cols(),
                     master.dtype, setup_.weights.recipe.dtype(fp8::Role::weight)},
                    master.bytes(), written);
      }
  }

  void begin_next_step() {
    if (step_.last) return;
    const Phase phase = std::exchange(out_.phase, Phase::forward);
    out_.gathers_are_ahead();
    weights_.begin_step(visits_, false);
    weights_.gather_ahead();
    out_.phase = phase;
  }

  void norm_of_update() {
    out_.site = {};
    out_.phase = Phase::optimizer;
    std::int64_t parts = 0;
    for (std::size_t u = 0; u < setup_.units.size(); ++u)
      for (std::size_t p = 0; p < setup_.units[u].parameters.size(); ++p)
        if (buffers_.counts(static_cast<int>(u), p))
          parts += kernels::adamw_square_parts(buffers_.master(static_cast<int>(u))[p].count());
    out_.kernel({"add_square_parts", parts, 1, DType::fp32, DType::fp32},
                static_cast<std::uint64_t>(parts) * sizeof(double), 0);
    sum_of_hosts(Group::model, model_ranks());
  }

  const Setup& setup_;
  const fsdp::UnitBuffers& buffers_;
  StepOfRun step_;
  UpdatePlan updates_;
  std::vector<fsdp::Visit> visits_;
  model::OperationWriter out_;
  model::ModuleOperations modules_;
  model::WeightOperations weights_;
  model::GradientOperations gradients_;
  model::TransformerOperations transformer_;
};

}  // namespace

model::Operations step_operations(const Setup& setup, const fsdp::UnitBuffers& buffers, const StepOfRun& step) {
  model::Operations all;
  StepOperations operations(setup, buffers, step, [&](const Operation& o) { all.list.push_back(o); });
  operations.write();
  all.ahead = operations.ahead();
  return all;
}

void for_each_operation(const Setup& setup, const fsdp::UnitBuffers& buffers, const StepOfRun& step,
                        const model::OperationWriter::Sink& sink) {
  StepOperations(setup, buffers, step, sink).write();
}

}  // namespace shard8::train

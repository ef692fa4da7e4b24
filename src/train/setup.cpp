// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/setup.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "deck/device.hpp"
#include "train/trainer.hpp"

namespace shard8::train {
namespace {

/// The dtype in which parameters that are not in FP8 are gathered. deck::load has replaced `auto`; Error(failed) if
/// not.
tensor::DType gather_dtype(const deck::Config& config) {
  SHARD8_REQUIRE(config.fsdp.gather != deck::Gather::automatic, "fsdp.gather was not resolved");
  if (config.fsdp.gather == deck::Gather::fp8) return model::dtype_of(config.precision.compute);
  return config.fsdp.gather == deck::Gather::bf16 ? tensor::DType::bf16 : tensor::DType::fp32;
}

}  // namespace

Setup Setup::make(const deck::Config& config, int rank, int threads) {
  Setup s;
  s.config = config;
  s.layout = deck::lay_out(config);
  s.mesh = config.mesh.extents();
  s.place = base::Place(s.mesh, rank);
  s.threads = threads;
  const tensor::DType compute = model::dtype_of(config.precision.compute);
  s.dims = model::Dims::make(config.model, s.layout.micro_batch, s.mesh[base::Axis::tensor], compute);
  s.dims.experts.ranks = s.mesh.expert;
  s.dims.device = deck::on_device(config.mesh);
  s.dims.experts.pushes = s.dims.device && s.dims.experts.on() && config.run.skeleton == deck::Skeleton::none;
  s.dims.deterministic = config.precision.deterministic;
  s.dims.overlap = model::Overlap::make(config);
  s.fsdp.place = s.place;
  s.fsdp.prefetch = static_cast<int>(config.fsdp.prefetch);
  s.fsdp.reshard_after_forward = config.fsdp.reshard_after_forward;
  s.fsdp.accumulate = s.layout.micro_batches > 1;
  s.fsdp.sharded_sums = config.fsdp.accumulate == deck::Accumulate::sharded;
  s.fsdp.compute = compute;
  s.fsdp.gather = gather_dtype(config);
  s.fsdp.reduce = model::dtype_of(config.precision.reduce);
  s.fsdp.master_remainder = config.optimizer.master == deck::Master::bf16_remainder;
  s.weights = model::WeightFormat::make(config);
  s.dims.experts.rows_multiple = s.weights.recipe.multiple();
  s.dims.experts.sends_fp8 = config.sends_rows_in_fp8();
  s.units = model::make_units(config.model, s.place);
  const bool recomputes =
      config.model.recompute == deck::Recompute::full || s.dims.experts.most_rounds(s.dims.tokens_local()) > 1;
  for (model::UnitSpec& unit : s.units)
    unit.backward_reads_both = recomputes && !unit.parameters.empty() && unit.parameters.front().of_experts;
  return s;
}

deck::DataConfig Setup::data() const {
  deck::DataConfig data = config.data;
  data.micro_batch = layout.micro_batch;
  return data;
}

using operation::Operation;

std::vector<int> record_step(const Setup& setup, const StepOfRun& step, const operation::Recorder::Sink& sink,
                             const operation::Recorder::Calls& calls) {
  Setup run = setup;
  const std::int64_t number = step.first ? 0 : 1;
  run.config.run.steps = number + (step.last ? 1 : 2);
  State state(run, tensor::ArenaSet::measure(), 0);
  const comm::Mesh mesh = comm::mesh_on_paper(run.place);
  profile::StepTimer phases(nullptr);
  std::int64_t now = 0;
  operation::Recorder recorder(
      [&](const Operation& operation) {
        if (now == number) sink(operation);
      },
      calls);
  Trainer trainer(recorder, run, mesh, state, phases);
  for (; now <= number; ++now) {  // what the step before begins and knows is part of the step
    recorder.begin_step();
    trainer.step(now);
  }
  return recorder.ahead();
}

operation::Operations record_step(const Setup& setup, const StepOfRun& step) {
  operation::Operations all;
  all.ahead = record_step(setup, step, [&](const Operation& operation) { all.list.push_back(operation); });
  return all;
}

}  // namespace shard8::train

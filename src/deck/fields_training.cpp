// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "deck/fields.hpp"
#include "deck/overlap.hpp"

namespace shard8::deck {
namespace {

template <auto member>
constexpr FieldAccess overlap() {
  return access<&Config::overlap, member>();
}
/// The names of the methods that an exchange can have.
template <Exchange exchange>
constexpr auto kMethodNames = [] {
  std::array<std::string_view, methods_of(exchange).size()> names;
  std::ranges::transform(methods_of(exchange), names.begin(), [](auto method) { return name_of(method); });
  return names;
}();
template <Exchange exchange>
constexpr Field method(std::string_view help) {
  return {.key = name_of(exchange),
          .access = ChoiceAccess{[](const Config& config) {
                                   constexpr auto kMethods = methods_of(exchange);
                                   const auto found = std::ranges::find(kMethods, config.overlap.methods[exchange]);
                                   return static_cast<int>(found - kMethods.begin());
                                 },
                                 [](Config& config, int value) {
                                   config.overlap.methods[exchange] =
                                       methods_of(exchange)[static_cast<std::size_t>(value)];
                                 },
                                 kMethodNames<exchange>},
          .help = help};
}
template <auto member>
constexpr FieldAccess optimizer() {
  return access<&Config::optimizer, member>();
}
template <auto member>
constexpr FieldAccess data() {
  return access<&Config::data, member>();
}
template <auto member>
constexpr FieldAccess checkpoint() {
  return access<&Config::checkpoint, member>();
}
template <auto member>
constexpr FieldAccess verify() {
  return access<&Config::verify, member>();
}

constexpr Field kFsdp[] = {
    {.key = "reshard_after_forward",
     .access = access<&Config::fsdp, &FsdpConfig::reshard_after_forward>(),
     .help = "free a layer's gathered weights after forward, gather them again"},
    {.key = "prefetch",
     .access = access<&Config::fsdp, &FsdpConfig::prefetch>(),
     .bounds = at_least(0),
     .unit = "units",
     .help = "units gathered ahead, at most model.layers"},
    {.key = "accumulate",
     .access = access<&Config::fsdp, &FsdpConfig::accumulate>(),
     .help = "where micro-batches' gradients are summed; full: unsharded, reduced after the last; sharded: in shards, "
             "reduced after each"},
    {.key = "gather",
     .access = access<&Config::fsdp, &FsdpConfig::gather>(),
     .default_note = "auto: fp8 with a recipe, else precision.compute",
     .help = "communication dtype of weights, with a recipe of the FP8 linears; fp32 with compute bf16: rounded by "
             "receivers"},
};

constexpr Field kOverlap[] = {
    {.key = "enable", .access = overlap<&OverlapConfig::enable>(), .help = "false: no exchange is overlapped"},
    method<Exchange::qkv_fprop>("gather of qkv's input"),
    method<Exchange::proj_fprop>("reduce-scatter of proj's output"),
    method<Exchange::fc1_fprop>("gather of fc1's input"),
    method<Exchange::fc2_fprop>("reduce-scatter of fc2's output"),
    method<Exchange::qkv_dgrad>("gather of qkv's input for wgrad, during qkv's dgrad"),
    method<Exchange::proj_dgrad>("gather of proj's output gradient, during fc2's wgrad"),
    method<Exchange::fc1_dgrad>("gather of fc1's input for wgrad, during fc1's dgrad"),
    method<Exchange::fc2_dgrad>("gather of fc2's output gradient, during proj's wgrad in the layer above"),
    method<Exchange::qkv_wgrad>("reduce-scatter of qkv's input gradient, during qkv's wgrad"),
    method<Exchange::fc1_wgrad>("reduce-scatter of fc1's input gradient, during fc1's wgrad"),
    method<Exchange::head_fprop>("gather of the head's input"),
    method<Exchange::head_dgrad>("reduce-scatter of the head's input gradient, during the wgrad of the last tokens"),
    method<Exchange::dispatch>("on devices: rows to their experts, during products of rows that have come"),
    method<Exchange::combine>("on devices: experts' results to their tokens, during other experts' products"),
    {.key = "splits",
     .access = overlap<&OverlapConfig::splits>(),
     .bounds = at_least(0),
     .unit = "products",
     .help = "direct on devices: products for other ranks' tokens, at most mesh.tensor - 1; 0: one a rank"},
    {.key = "chunks",
     .access = overlap<&OverlapConfig::chunks>(),
     .bounds = from_to(0, 16),
     .unit = "products",
     .help = "pipeline on devices: products for each other rank's tokens, each sent while the next is computed, and "
             "for the rows of a rank's experts; 0: 2 for two ranks and for experts, else 1"},
    {.key = "min_gflop",
     .access = overlap<&OverlapConfig::min_gflop>(),
     .bounds = at_least(0),
     .unit = "GFLOP",
     .help = "not overlapped: exchanges whose product on a rank is smaller (2 M N K / 1e9)"},
};

constexpr Field kOptimizer[] = {
    {.key = "lr",
     .access = optimizer<&OptimizerConfig::lr>(),
     .bounds = positive_float(),
     .required = true,
     .help = "highest learning rate, reached after warmup"},
    {.key = "min_lr",
     .access = optimizer<&OptimizerConfig::min_lr>(),
     .bounds = at_least(0),
     .help = "learning rate from decay_steps on, at most lr"},
    {.key = "warmup",
     .access = optimizer<&OptimizerConfig::warmup>(),
     .bounds = at_least(0),
     .unit = "steps",
     .help = "steps of linear rise to lr"},
    {.key = "decay_steps",
     .access = optimizer<&OptimizerConfig::decay_steps>(),
     .bounds = at_least(1),
     .default_note = "run.steps, at least warmup + 1",
     .unit = "steps",
     .help = "last step of the cosine, more than warmup; without this key a restart keeps the checkpoint's"},
    {.key = "beta1",
     .access = optimizer<&OptimizerConfig::beta1>(),
     .bounds = from_below(0, 1),
     .help = "decay of the first moment"},
    {.key = "beta2",
     .access = optimizer<&OptimizerConfig::beta2>(),
     .bounds = from_below(0, 1),
     .help = "decay of the second moment"},
    {.key = "eps",
     .access = optimizer<&OptimizerConfig::eps>(),
     .bounds = positive_float(),
     .help = "added to the square root of the second moment"},
    {.key = "weight_decay",
     .access = optimizer<&OptimizerConfig::weight_decay>(),
     .bounds = float_from(0),
     .help = "decoupled decay of parameters with two dimensions"},
    {.key = "clip",
     .access = optimizer<&OptimizerConfig::clip>(),
     .bounds = zero_or_positive_float(),
     .help = "largest norm of the whole gradient; 0: no clipping"},
    {.key = "moments", .access = optimizer<&OptimizerConfig::moments>(), .help = "storage of both moments"},
    {.key = "master",
     .access = optimizer<&OptimizerConfig::master>(),
     .help =
         "storage of master weights; bf16_remainder: BF16 and the other 16 bits of FP32, lossless; needs compute bf16"},
};

constexpr Field kData[] = {
    {.key = "kind",
     .access = data<&DataConfig::kind>(),
     .required = true,
     .help = "synthetic: random tokens; bytes: text, one token per byte; tokens: HDF5 dataset"},
    {.key = "path",
     .access = data<&DataConfig::path>(),
     .help = "bytes: file or folder; tokens: 'file.h5:/dataset'; not read for synthetic"},
    {.key = "batch",
     .access = data<&DataConfig::batch>(),
     .bounds = at_least(1),
     .required = true,
     .instead = "batch_per_rank",
     .unit = "sequences",
     .help = "sequences in a step over all ranks"},
    {.key = "batch_per_rank",
     .access = data<&DataConfig::batch_per_rank>(),
     .bounds = at_least(0),
     .unit = "sequences",
     .help = "sequences of a data rank in a step, in place of batch"},
    {.key = "micro_batch",
     .access = data<&DataConfig::micro_batch>(),
     .bounds = at_least(0),
     .unit = "sequences",
     .help = "sequences that a data rank computes at once; 0: all"},
    {.key = "seed", .access = data<&DataConfig::seed>(), .help = "seed of sample order and of synthetic tokens"},
    {.key = "validation",
     .access = data<&DataConfig::validation>(),
     .bounds = from_below(0, 1),
     .help = "share of the samples or slabs, rounded up, the last ones, kept out of training for validation"},
    {.key = "validation_path",
     .access = data<&DataConfig::validation_path>(),
     .help = "as path: data for validation, all of it, in place of a share"},
};

constexpr Field kRun[] = {
    {.key = "steps",
     .access = access<&Config::run, &RunConfig::steps>(),
     .bounds = at_least(1),
     .required = true,
     .unit = "steps",
     .help = "optimizer steps"},
    {.key = "stop_after",
     .access = access<&Config::run, &RunConfig::stop_after>(),
     .bounds = at_least(0),
     .unit = "steps",
     .help = "stop after this many steps of this run; 0: never"},
    {.key = "time_limit_min",
     .access = access<&Config::run, &RunConfig::time_limit_min>(),
     .bounds = from_to(0, kMostInteger),
     .unit = "minutes",
     .help = "stop margin_s before this time since the start; 0: never; also before a Slurm job's end"},
    {.key = "margin_s",
     .access = access<&Config::run, &RunConfig::margin_s>(),
     .bounds = from_to(0, kMostInteger),
     .unit = "seconds",
     .help = "time to stop before a limit; 0: 1.5 times (longest step + longest write)"},
    {.key = "log_every",
     .access = access<&Config::run, &RunConfig::log_every>(),
     .bounds = at_least(1),
     .unit = "steps",
     .help = "steps between lines of progress"},
    {.key = "timing_skip",
     .access = access<&Config::run, &RunConfig::timing_skip>(),
     .bounds = at_least(0),
     .default_note = "5, or run.steps - 1 if that is less",
     .unit = "steps",
     .help = "first steps left out of figures, less than steps"},
    {.key = "hang_limit_s",
     .access = access<&Config::run, &RunConfig::hang_limit_s>(),
     .bounds = from_to(1, 604800),
     .unit = "seconds",
     .help = "longest wait for other ranks or time without progress, then code 5; at least 600 in the first step"},
    {.key = "validate_every",
     .access = access<&Config::run, &RunConfig::validate_every>(),
     .bounds = at_least(0),
     .unit = "steps",
     .help = "steps between validations, of which the last is behind the last step; 0: none"},
    {.key = "validate_batches",
     .access = access<&Config::run, &RunConfig::validate_batches>(),
     .bounds = at_least(0),
     .unit = "batches",
     .help = "batches of data.batch sequences of a validation; 0: all"},
    {.key = "skeleton",
     .access = access<&Config::run, &RunConfig::skeleton>(),
     .help = "communication: waits in place of computations; computation: no collectives; no loss is computed"},
    {.key = "skeleton_times",
     .access = access<&Config::run, &RunConfig::skeleton_times>(),
     .help = "how long a skeleton waits: a machine file, or output.dir or summary of a run; empty: not at all"},
    {.key = "skeleton_load",
     .access = access<&Config::run, &RunConfig::skeleton_load>(),
     .bounds = from_to(0, 1e5),
     .unit = "GB/s",
     .help = "memory that a rank of a skeleton reads while it waits"},
};

constexpr Field kCheckpoint[] = {
    {.key = "dir",
     .access = checkpoint<&CheckpointConfig::dir>(),
     .default_note = "none, or output.dir/checkpoints if every or run.stop_after is not 0",
     .help = "folder of checkpoints"},
    {.key = "every",
     .access = checkpoint<&CheckpointConfig::every>(),
     .bounds = at_least(0),
     .unit = "steps",
     .help = "steps between checkpoints; 0: none on the way"},
    {.key = "keep",
     .access = checkpoint<&CheckpointConfig::keep>(),
     .bounds = at_least(1),
     .unit = "checkpoints",
     .help = "newest checkpoints kept"},
    {.key = "async",
     .access = checkpoint<&CheckpointConfig::async>(),
     .help = "write while training goes on; false: training waits"},
    {.key = "files",
     .access = checkpoint<&CheckpointConfig::files>(),
     .help = "one file for each rank or for each node"},
    {.key = "restart",
     .access = checkpoint<&CheckpointConfig::restart>(),
     .not_empty = true,
     .help = "auto: the newest in dir, if any; none: step 0; or a checkpoint, or a folder of several"},
    {.key = "allow_changes",
     .access = checkpoint<&CheckpointConfig::allow_changes>(),
     .help = "accept keys that change the training"},
};

constexpr Field kVerify[] = {
    {.key = "final_loss_max",
     .access = verify<&VerifyConfig::final_loss_max>(),
     .bounds = at_least(0),
     .unit = "nats",
     .help = "highest last loss that passes, if not 0"},
    {.key = "final_loss_min",
     .access = verify<&VerifyConfig::final_loss_min>(),
     .bounds = at_least(0),
     .unit = "nats",
     .help = "lowest last loss that passes, if not 0"},
    {.key = "unigram_ratio_max",
     .access = verify<&VerifyConfig::unigram_ratio_max>(),
     .bounds = at_least(0),
     .help = "highest last loss / unigram entropy that passes, if not 0"},
    {.key = "validation_loss_max",
     .access = verify<&VerifyConfig::validation_loss_max>(),
     .bounds = at_least(0),
     .unit = "nats",
     .help = "highest last validation loss that passes, if not 0"},
    {.key = "min_steps",
     .access = verify<&VerifyConfig::min_steps>(),
     .bounds = at_least(1),
     .unit = "steps",
     .help = "shorter runs are not judged by the last loss"},
    {.key = "gold",
     .access = verify<&VerifyConfig::gold>(),
     .help = "metrics.jsonl whose losses must be repeated; empty: none"},
    {.key = "tolerance",
     .access = verify<&VerifyConfig::tolerance>(),
     .bounds = at_least(0),
     .default_note = "none: to be given with gold",
     .help = "largest relative difference from gold; 0: bit for bit"},
};

constexpr Field kOutput[] = {
    {.key = "dir",
     .access = access<&Config::output, &OutputConfig::dir>(),
     .not_empty = true,
     .help = "folder of all output files"},
    {.key = "replace",
     .access = access<&Config::output, &OutputConfig::replace>(),
     .help = "move another training's files to replaced_N; false: refuse to run"},
    {.key = "metrics",
     .access = access<&Config::output, &OutputConfig::metrics>(),
     .not_empty = true,
     .help = "loss, gradient norm, learning rate and time of each step"},
    {.key = "timing",
     .access = access<&Config::output, &OutputConfig::timing>(),
     .not_empty = true,
     .help = "phases of each step over ranks"},
    {.key = "timing_ranks",
     .access = access<&Config::output, &OutputConfig::timing_ranks>(),
     .help = "phases of each step on every rank, in at most 256 MiB of rank 0; empty: none"},
    {.key = "summary",
     .access = access<&Config::output, &OutputConfig::summary>(),
     .not_empty = true,
     .help = "the report and the resolved deck"},
    {.key = "trace",
     .access = access<&Config::output, &OutputConfig::trace>(),
     .help = "NAME.json: rank 3 writes NAME.rank0003.json; empty: no trace"},
    {.key = "trace_steps",
     .access = access<&Config::output, &OutputConfig::trace_steps>(),
     .default_note = "the first 3 steps that figures count",
     .help = "traced steps, ascending from 0, at most 100: 7, or 7:9, or 7:9,20"},
};

}  // namespace

std::span<const Field> fsdp_fields() { return kFsdp; }
std::span<const Field> overlap_fields() { return kOverlap; }
std::span<const Field> optimizer_fields() { return kOptimizer; }
std::span<const Field> data_fields() { return kData; }
std::span<const Field> run_fields() { return kRun; }
std::span<const Field> checkpoint_fields() { return kCheckpoint; }
std::span<const Field> verify_fields() { return kVerify; }
std::span<const Field> output_fields() { return kOutput; }

}  // namespace shard8::deck

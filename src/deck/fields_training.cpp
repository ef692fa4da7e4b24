// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "deck/fields.hpp"
#include "deck/overlap.hpp"

namespace shard8::deck {
namespace {

template <auto member>
constexpr Slot overlap() {
  return slot<&Config::overlap, member>();
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
          .slot = ChoiceAccess{[](const Config& config) {
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
constexpr Slot optimizer() {
  return slot<&Config::optimizer, member>();
}
template <auto member>
constexpr Slot data() {
  return slot<&Config::data, member>();
}
template <auto member>
constexpr Slot checkpoint() {
  return slot<&Config::checkpoint, member>();
}
template <auto member>
constexpr Slot verify() {
  return slot<&Config::verify, member>();
}

constexpr Field kFsdp[] = {
    {.key = "reshard_after_forward",
     .slot = slot<&Config::fsdp, &FsdpConfig::reshard_after_forward>(),
     .help = "free a layer's gathered weights after its forward and gather them again in backward"},
    {.key = "prefetch",
     .slot = slot<&Config::fsdp, &FsdpConfig::prefetch>(),
     .bounds = at_least(0),
     .unit = "units",
     .help = "units gathered ahead of the one that computes, at most model.layers; prefetch + 1 "
             "layers are held at once"},
    {.key = "gather",
     .slot = slot<&Config::fsdp, &FsdpConfig::gather>(),
     .default_note = "auto: fp8 with a recipe, else precision.compute",
     .help = "what travels when weights are gathered; fp32 with compute bf16 is rounded where it "
             "arrives. With a recipe: of the FP8 linears, fp8, or also precision.compute where "
             "fp8.weights is bf16; all else travels in precision.compute"},
};

constexpr Field kOverlap[] = {
    {.key = "enable",
     .slot = overlap<&OverlapConfig::enable>(),
     .help = "exchanges run beside products as the keys below say; false: each runs alone. auto: when it starts, a "
             "run times the exchange with its method and alone, and keeps the faster"},
    method<Exchange::qkv_fprop>(
        "the gather of qkv's input; direct: the product of each rank's tokens runs as soon as they are there; "
        "ring, on hosts: the same, but each rank's tokens travel from neighbour to neighbour; auto: direct or off"),
    method<Exchange::proj_fprop>(
        "the reduce-scatter of proj's output; pipeline: each rank's tokens leave as soon as their product is "
        "done; ring, on hosts: sums travel from neighbour to neighbour, and each rank adds its product; auto: "
        "pipeline or off"),
    method<Exchange::fc1_fprop>("the gather of fc1's input; direct, ring: as for qkv_fprop; auto: direct or off"),
    method<Exchange::fc2_fprop>(
        "the reduce-scatter of fc2's output; pipeline, ring: as for proj_fprop; auto: pipeline or off"),
    method<Exchange::qkv_dgrad>("the gather of qkv's input for wgrad; bulk: while dgrad computes; auto: bulk or off"),
    method<Exchange::proj_dgrad>(
        "the gather of the gradient of proj's output; bulk: while the wgrad of fc2 computes; auto: bulk or off"),
    method<Exchange::fc1_dgrad>("the gather of fc1's input for wgrad; bulk: while dgrad computes; auto: bulk or off"),
    method<Exchange::fc2_dgrad>(
        "the gather of the gradient of fc2's output; bulk: while the wgrad of proj in the layer above computes; "
        "auto: bulk or off"),
    method<Exchange::qkv_wgrad>(
        "the reduce-scatter of the gradient of qkv's input; bulk: while wgrad computes; auto: bulk or off"),
    method<Exchange::fc1_wgrad>(
        "the reduce-scatter of the gradient of fc1's input; bulk: while wgrad computes; auto: bulk or off"),
    method<Exchange::head_fprop>(
        "the gather of the head's input; direct: the head's first tokens are multiplied as they arrive, and the "
        "others arrive beside them; ring, on hosts: the first tokens travel from neighbour to neighbour; auto: "
        "direct or off"),
    method<Exchange::head_dgrad>(
        "the reduce-scatter of the gradient of the head's input; bulk: while the wgrad of the last tokens "
        "computes; auto: bulk or off"),
    {.key = "splits",
     .slot = overlap<&OverlapConfig::splits>(),
     .bounds = at_least(0),
     .unit = "products",
     .help = "direct, on devices: in so many products the other ranks' tokens are multiplied as they arrive, at most "
             "mesh.tensor - 1; fewer are larger. 0: one for each rank, as always on hosts, where a product's bits may "
             "depend on its size"},
    {.key = "chunks",
     .slot = overlap<&OverlapConfig::chunks>(),
     .bounds = from_to(0, 16),
     .unit = "products",
     .help =
         "pipeline, on devices: in so many products the tokens of each other rank are multiplied; each is sent while "
         "the next one computes. 0: 2 in a group of two ranks, else 1. Always 1 on hosts, where a product's bits may "
         "depend on its size"},
    {.key = "min_gflop",
     .slot = overlap<&OverlapConfig::min_gflop>(),
     .bounds = at_least(0),
     .unit = "GFLOP",
     .help = "an exchange runs alone if its product, with all tokens of a micro-batch, has fewer GFLOP on a rank "
             "(2 M N K / 1e9)"},
};

constexpr Field kOptimizer[] = {
    {.key = "lr",
     .slot = optimizer<&OptimizerConfig::lr>(),
     .bounds = positive_float(),
     .required = true,
     .help = "highest learning rate, reached after warmup"},
    {.key = "min_lr",
     .slot = optimizer<&OptimizerConfig::min_lr>(),
     .bounds = at_least(0),
     .help = "learning rate at the end of the cosine decay and after it, at most lr"},
    {.key = "warmup",
     .slot = optimizer<&OptimizerConfig::warmup>(),
     .bounds = at_least(0),
     .unit = "steps",
     .help = "steps of linear rise to lr"},
    {.key = "decay_steps",
     .slot = optimizer<&OptimizerConfig::decay_steps>(),
     .bounds = at_least(1),
     .default_note = "run.steps, at least warmup + 1",
     .unit = "steps",
     .help = "step at which min_lr is reached, counted from the first of the run, more than "
             "warmup; a restart without this key keeps the checkpoint's"},
    {.key = "beta1",
     .slot = optimizer<&OptimizerConfig::beta1>(),
     .bounds = from_below(0, 1),
     .help = "decay of the first moment"},
    {.key = "beta2",
     .slot = optimizer<&OptimizerConfig::beta2>(),
     .bounds = from_below(0, 1),
     .help = "decay of the second moment"},
    {.key = "eps",
     .slot = optimizer<&OptimizerConfig::eps>(),
     .bounds = positive_float(),
     .help = "added to the square root of the second moment"},
    {.key = "weight_decay",
     .slot = optimizer<&OptimizerConfig::weight_decay>(),
     .bounds = float_from(0),
     .help = "decoupled decay of parameters of two dimensions or more"},
    {.key = "clip",
     .slot = optimizer<&OptimizerConfig::clip>(),
     .bounds = zero_or_positive_float(),
     .help = "largest norm of the whole gradient, beyond it the gradient is scaled; 0: off"},
    {.key = "moments", .slot = optimizer<&OptimizerConfig::moments>(), .help = "format in which both moments are kept"},
    {.key = "master",
     .slot = optimizer<&OptimizerConfig::master>(),
     .help = "format of the weights that are updated; bf16_remainder: BF16 and the 16 bits that it "
             "leaves out of FP32, without loss; needs compute bf16"},
};

constexpr Field kData[] = {
    {.key = "kind",
     .slot = data<&DataConfig::kind>(),
     .required = true,
     .help = "synthetic: a counter-based generator; bytes: text, a token a byte; tokens: an HDF5 "
             "dataset"},
    {.key = "path",
     .slot = data<&DataConfig::path>(),
     .help = "bytes: a file or a folder of files; tokens: 'file.h5:/dataset'; not read for "
             "synthetic. Looked for from the working directory, then from the deck's folder"},
    {.key = "batch",
     .slot = data<&DataConfig::batch>(),
     .bounds = at_least(1),
     .required = true,
     .instead = "batch_per_rank",
     .unit = "sequences",
     .help = "sequences in a step, over all ranks; any number"},
    {.key = "batch_per_rank",
     .slot = data<&DataConfig::batch_per_rank>(),
     .bounds = at_least(0),
     .unit = "sequences",
     .help = "in place of batch: sequences of a data rank in a step; batch is then this number times the data ranks, "
             "replicate * shard. On the command line one of the two replaces the other in the deck; 0: batch is given"},
    {.key = "micro_batch",
     .slot = data<&DataConfig::micro_batch>(),
     .bounds = at_least(0),
     .unit = "sequences",
     .help = "sequences that a data rank computes at once; 0: all that it has"},
    {.key = "seed", .slot = data<&DataConfig::seed>(), .help = "seed of the order of samples and of synthetic tokens"},
};

constexpr Field kRun[] = {
    {.key = "steps",
     .slot = slot<&Config::run, &RunConfig::steps>(),
     .bounds = at_least(1),
     .required = true,
     .unit = "steps",
     .help = "optimizer steps"},
    {.key = "stop_after",
     .slot = slot<&Config::run, &RunConfig::stop_after>(),
     .bounds = at_least(0),
     .unit = "steps",
     .help = "the run stops after so many steps of its own, before it has trained all; 0: never"},
    {.key = "time_limit_min",
     .slot = slot<&Config::run, &RunConfig::time_limit_min>(),
     .bounds = from_to(0, kMostInteger),
     .unit = "minutes",
     .help = "the run stops so long after it was started, less margin_s; 0: no limit. Under Slurm it also stops "
             "margin_s before the end of the job (SLURM_JOB_END_TIME)"},
    {.key = "margin_s",
     .slot = slot<&Config::run, &RunConfig::margin_s>(),
     .bounds = from_to(0, kMostInteger),
     .unit = "seconds",
     .help = "how long before a limit of time the run stops: at least a step and its report must fit in; 0: 1.5 times "
             "the longest step and the longest write of a checkpoint so far together"},
    {.key = "log_every",
     .slot = slot<&Config::run, &RunConfig::log_every>(),
     .bounds = at_least(1),
     .unit = "steps",
     .help = "steps from one line of progress to the next"},
    {.key = "timing_skip",
     .slot = slot<&Config::run, &RunConfig::timing_skip>(),
     .bounds = at_least(0),
     .default_note = "5, or run.steps - 1 if that is less",
     .unit = "steps",
     .help = "first steps left out of the figures, less than steps"},
    {.key = "hang_limit_s",
     .slot = slot<&Config::run, &RunConfig::hang_limit_s>(),
     .bounds = from_to(1, 604800),
     .unit = "seconds",
     .help = "a rank that waits longer than this for other ranks, or whose main thread makes no progress for as long, "
             "says where and ends the job with code 5; at least 600 until the first step is over"},
};

constexpr Field kCheckpoint[] = {
    {.key = "dir",
     .slot = checkpoint<&CheckpointConfig::dir>(),
     .default_note = "none, or output.dir/checkpoints if every or run.stop_after is not 0",
     .help = "folder of the checkpoints, relative to the working directory, made if missing; empty: the default"},
    {.key = "every",
     .slot = checkpoint<&CheckpointConfig::every>(),
     .bounds = at_least(0),
     .unit = "steps",
     .help = "steps from one checkpoint to the next; 0: none on the way"},
    {.key = "keep",
     .slot = checkpoint<&CheckpointConfig::keep>(),
     .bounds = at_least(1),
     .unit = "checkpoints",
     .help = "checkpoints of the run that stay, those written last; older ones are removed"},
    {.key = "async",
     .slot = checkpoint<&CheckpointConfig::async>(),
     .help = "write from a copy while training goes on; false: training waits until the checkpoint is on disk"},
    {.key = "files",
     .slot = checkpoint<&CheckpointConfig::files>(),
     .help = "rank: each rank writes a file; node: the ranks of a node write one"},
    {.key = "restart",
     .slot = checkpoint<&CheckpointConfig::restart>(),
     .not_empty = true,
     .help = "auto: go on from the last checkpoint in dir if there is one; none: begin at step 0; else the folder of "
             "one checkpoint or of several, looked for as data.path is"},
    {.key = "allow_changes",
     .slot = checkpoint<&CheckpointConfig::allow_changes>(),
     .help = "go on from a checkpoint although keys that change the training differ from those of its deck"},
};

constexpr Field kVerify[] = {
    {.key = "final_loss_max",
     .slot = verify<&VerifyConfig::final_loss_max>(),
     .bounds = at_least(0),
     .unit = "nats",
     .help = "highest loss of the last step that passes; 0: not checked"},
    {.key = "final_loss_min",
     .slot = verify<&VerifyConfig::final_loss_min>(),
     .bounds = at_least(0),
     .unit = "nats",
     .help = "lowest loss of the last step that passes; 0: not checked"},
    {.key = "unigram_ratio_max",
     .slot = verify<&VerifyConfig::unigram_ratio_max>(),
     .bounds = at_least(0),
     .help = "highest ratio of the last loss to the data's unigram entropy that passes; 0: not "
             "checked"},
    {.key = "min_steps",
     .slot = verify<&VerifyConfig::min_steps>(),
     .bounds = at_least(1),
     .unit = "steps",
     .help = "fewest run.steps for which the limits of the last loss hold; a shorter run is not held against them"},
    {.key = "gold",
     .slot = verify<&VerifyConfig::gold>(),
     .help = "file of losses that the run must repeat, looked for as data.path is; empty: none"},
    {.key = "tolerance",
     .slot = verify<&VerifyConfig::tolerance>(),
     .bounds = at_least(0),
     .default_note = "none: to be given with gold",
     .help = "largest relative difference from gold; 0: bit for bit"},
};

constexpr Field kOutput[] = {
    {.key = "dir",
     .slot = slot<&Config::output, &OutputConfig::dir>(),
     .not_empty = true,
     .help = "folder of the files below, relative to the working directory, made if missing"},
    {.key = "replace",
     .slot = slot<&Config::output, &OutputConfig::replace>(),
     .help =
         "move the files of another training in output.dir and checkpoint.dir to folders replaced_N in them; false: "
         "refuse to run there. Only the first run of a training does it"},
    {.key = "metrics",
     .slot = slot<&Config::output, &OutputConfig::metrics>(),
     .not_empty = true,
     .help = "file in dir, a name without '/': loss, gradient norm, learning rate and time of each step"},
    {.key = "timing",
     .slot = slot<&Config::output, &OutputConfig::timing>(),
     .not_empty = true,
     .help = "file in dir, a name without '/': seconds of each step's phases over ranks"},
    {.key = "timing_ranks",
     .slot = slot<&Config::output, &OutputConfig::timing_ranks>(),
     .help =
         "file in dir, a name without '/': seconds of each step's phases on every rank, which rank 0 keeps in memory, "
         "72 bytes a step and rank, 256 MiB at most; empty: none"},
    {.key = "summary",
     .slot = slot<&Config::output, &OutputConfig::summary>(),
     .not_empty = true,
     .help = "file in dir, a name without '/': the whole report and the deck as it was understood"},
    {.key = "trace",
     .slot = slot<&Config::output, &OutputConfig::trace>(),
     .help = "name that ends in .json, without '/': each rank writes what happened in trace_steps to a file in dir, "
             "rank 3 of trace.json to trace.rank0003.json; shard8 trace merges them; empty: no trace"},
    {.key = "trace_steps",
     .slot = slot<&Config::output, &OutputConfig::trace_steps>(),
     .default_note = "the first 3 steps that figures count",
     .help = "steps that are traced, from 0, ascending: 7, or 7:9, or 7:9,20; at most 100"},
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

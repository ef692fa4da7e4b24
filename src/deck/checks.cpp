// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <numeric>
#include <string_view>
#include <utility>

#include "deck/choices.hpp"
#include "deck/fields.hpp"
#include "deck/layout.hpp"
#include "deck/number.hpp"
#include "deck/overlap.hpp"

namespace shard8::deck {
namespace {

/// Most parameters of a model, and most elements of activations. Chosen: the bytes of everything that a rank holds
/// still fit 64 bits.
constexpr double kMostElements = 1e15;

/// The widest head that attention on devices takes: kernels/attention.hpp.
constexpr std::int64_t kWidestHeadOnDevices = 256;

using Factor = std::pair<std::string_view, std::int64_t>;

/// The key with the largest value; an error of a product that is too large is placed at this key.
std::string_view largest(std::initializer_list<Factor> factors) {
  return std::max(factors, [](const Factor& a, const Factor& b) { return a.second < b.second; }).first;
}

/// The larger of the widths of the residual stream and of all query heads, and the key that makes it so large. Numbers
/// of heads without a usable value are 0.
std::int64_t widest(const ModelConfig& m) { return std::max(m.hidden, m.heads * m.head_dim); }
std::string_view widest_key(const ModelConfig& m) { return widest(m) == m.hidden ? "model.hidden" : "model.head_dim"; }

/// The widths of a token inside the experts of a round, whose rows may be as many as the capacity allows.
std::int64_t expert_width(const MoeConfig& moe) {
  return static_cast<std::int64_t>(std::ceil(moe.capacity)) * moe.experts_per_token * moe.ffn;
}

void check_experts(const Checker& check, const ModelConfig& m) {
  if (!m.moe.on() || !check.sound({"model.hidden", "model.layers", "moe.experts", "moe.ffn", "moe.dense_layers"}))
    return;
  const double parameters = 3 * static_cast<double>(m.expert_layers()) * static_cast<double>(m.moe.experts) *
                            static_cast<double>(m.hidden) * static_cast<double>(m.moe.ffn);
  if (parameters <= kMostElements) return;
  check.fail({largest({{"moe.experts", m.moe.experts}, {"moe.ffn", m.moe.ffn}, {"model.hidden", m.hidden}})},
             fmt::format("3 * (model.layers - moe.dense_layers) * moe.experts * model.hidden * moe.ffn = 3 * {} * {} * "
                         "{} * {} = about {:.2g} parameters of experts are too many",
                         m.expert_layers(), m.moe.experts, m.hidden, m.moe.ffn, parameters),
             fmt::format("at most {:.0e} can be counted", kMostElements));
}

void check_parameters(const Checker& check, const ModelConfig& m) {
  check_experts(check, m);
  if (!check.sound({"model.hidden", "model.ffn", "model.layers", "model.vocab", "model.seq"})) return;
  const auto hidden = static_cast<double>(m.hidden);
  const double layers =
      static_cast<double>(m.layers) * hidden * (4 * static_cast<double>(widest(m)) + 3 * static_cast<double>(m.ffn));
  const double tables = hidden * (2 * static_cast<double>(m.vocab) + static_cast<double>(m.seq));
  const double parameters = layers + tables;
  if (parameters <= kMostElements) return;
  check.fail({layers > tables ? largest({{widest_key(m), widest(m)}, {"model.ffn", m.ffn}, {"model.layers", m.layers}})
                              : largest({{"model.hidden", m.hidden}, {"model.vocab", m.vocab}, {"model.seq", m.seq}})},
             fmt::format("model.layers * hidden * (4 * {} + 3 * ffn) + hidden * (2 * vocab + seq) = {} * {} * "
                         "(4 * {} + 3 * {}) + {} * (2 * {} + {}) = about {:.2g} parameters are too many",
                         widest(m) == m.hidden ? "hidden" : "heads * head_dim", m.layers, m.hidden, widest(m), m.ffn,
                         m.hidden, m.vocab, m.seq, parameters),
             fmt::format("at most {:.0e} can be counted", kMostElements));
}

/// A step keeps a list of its layers, once for each micro-batch, so their number is bounded.
void check_visits(const Checker& check, const Config& config) {
  constexpr std::int64_t kMost = 10000000;
  if (!check.sound({"model.layers", "data.batch", "data.micro_batch", "mesh.replicate", "mesh.shard"})) return;
  const std::int64_t micro_batches = lay_out(config).micro_batches;
  const std::int64_t visits = micro_batches * config.model.layers;
  if (visits <= kMost) return;
  check.fail({"data.micro_batch", "data.batch"},
             fmt::format("micro-batches * model.layers = {} * {} = {} layers in a step are too many", micro_batches,
                         config.model.layers, visits),
             fmt::format("at most {}: larger micro-batches, or fewer sequences", kMost));
}

void check_activations(const Checker& check, const Config& config) {
  const ModelConfig& m = config.model;
  const std::int64_t tensor = config.mesh.tensor;
  if (!check.sound({"model.hidden", "model.ffn", "model.layers", "model.vocab", "model.seq", "data.batch",
                    "data.micro_batch", "mesh.replicate", "mesh.shard", "mesh.tensor"}))
    return;
  const bool experts = m.moe.on() && check.sound({"moe.experts_per_token", "moe.ffn", "moe.capacity"});
  const Factor widths[] = {{widest_key(m), widest(m)},
                           {"model.ffn", m.ffn},
                           {"model.vocab", (m.vocab + tensor - 1) / tensor},
                           {"moe.ffn", experts ? expert_width(m.moe) : 0}};
  const auto& [key, width] =
      *std::max_element(std::begin(widths), std::end(widths), [](auto& a, auto& b) { return a.second < b.second; });
  const std::int64_t micro = lay_out(config).micro_batch;
  const double elements = static_cast<double>(micro) * static_cast<double>(m.seq) * static_cast<double>(width) *
                          static_cast<double>(m.layers);
  if (elements <= kMostElements) return;
  const bool given = micro == config.data.micro_batch;
  check.fail({largest({{given ? "data.micro_batch" : "data.batch", micro},
                       {"model.seq", m.seq},
                       {key, width},
                       {"model.layers", m.layers}})},
             fmt::format("micro-batch * model.seq * {}{}{} * model.layers = {} * {} * {} * {} = about {:.2g} elements "
                         "of activations are too many{}",
                         key == "model.head_dim" ? "model.heads * "
                         : key == "moe.ffn"      ? "ceil(moe.capacity) * moe.experts_per_token * "
                                                 : "",
                         key, key == "model.vocab" ? " / mesh.tensor" : "", micro, m.seq, width, m.layers, elements,
                         micro_batch_note(config)),
             fmt::format("at most {:.0e} can be counted", kMostElements));
}

void check_heads(const Checker& check, const Config& config) {
  const ModelConfig& m = config.model;
  if (!check.sound({"model.arch", "model.hidden", "model.heads", "model.head_dim"})) return;
  const bool divided = m.heads * m.head_dim == m.hidden, llama = m.arch == Arch::llama;
  if (llama && m.head_dim % 2 != 0) {
    constexpr const char* hint = "rotary embedding turns pairs: the width of a head must be even";
    if (divided)
      check.fail({"model.heads", "model.hidden"},
                 fmt::format("model.hidden / model.heads = {} / {} = {} is odd", m.hidden, m.heads, m.head_dim), hint);
    else
      check.fail({"model.head_dim"}, fmt::format("{} is odd", check.shown("model.head_dim")), hint);
  }
  if (!llama && m.head_dim != 0 && !divided)
    check.fail({"model.head_dim", "model.hidden", "model.heads"},
               fmt::format("model.heads * model.head_dim = {} * {} = {} differs from {}", m.heads, m.head_dim,
                           m.heads * m.head_dim, check.shown("model.hidden")),
               "the heads of gpt2 are model.hidden / model.heads wide: leave head_dim out");
  if (!llama && m.qk_norm && check.sound({"model.qk_norm"}))
    check.fail({"model.qk_norm", "model.arch"},
               fmt::format("{} does not go with {}", check.shown("model.qk_norm"), check.shown("model.arch")),
               "gpt2 has no norms of queries and keys: leave qk_norm out, or set arch to llama");
  if (check.sound({"mesh.device"}) && config.mesh.device == Device::cuda && m.head_dim > kWidestHeadOnDevices)
    check.fail({"model.head_dim", "model.heads", "model.hidden"},
               fmt::format("heads of width {} do not go with {}", m.head_dim, check.shown("mesh.device")),
               fmt::format("attention on devices takes heads of width {} and less; in bf16 it is fast, by cuDNN, for "
                           "multiples of 8",
                           kWidestHeadOnDevices));
}

void check_model(const Checker& check, const Config& config) {
  const ModelConfig& m = config.model;
  if (m.head_dim == 0) check.divisible("model.hidden", "model.heads");
  check.divisible("model.heads", "model.kv_heads");
  check_heads(check, config);
  if (check.sound({"model.arch", "model.heads", "model.kv_heads"}) && m.arch == Arch::gpt2 && m.kv_heads != m.heads) {
    check.fail({"model.kv_heads", "model.heads"},
               fmt::format("{} differs from {}", check.shown("model.kv_heads"), check.shown("model.heads")),
               "gpt2 has no grouped queries: leave kv_heads out");
  }
  check_parameters(check, m);
  check_activations(check, config);
  check_visits(check, config);
}

void check_mesh(const Checker& check, const Config& config) {
  const MeshConfig& mesh = config.mesh;
  check.divisible("model.heads", "mesh.tensor");
  if (config.model.kv_heads != config.model.heads) {
    check.divisible("model.kv_heads", "mesh.tensor");
  }
  if (config.model.has_dense_layers()) check.divisible("model.ffn", "mesh.tensor");
  if (check.sound({"mesh.backend", "mesh.device"}) && ((mesh.backend == Backend::nccl && mesh.device == Device::host) ||
                                                       (mesh.backend == Backend::mpi && mesh.device == Device::cuda))) {
    check.fail({"mesh.backend", "mesh.device"},
               fmt::format("{} does not go with {}", check.shown("mesh.backend"), check.shown("mesh.device")),
               "mpi moves hosts' memory, nccl that of devices: leave backend out");
  }
  if (!check.sound({"mesh.replicate", "mesh.shard", "mesh.tensor"})) return;
  if (mesh.ranks() > kMostInteger) {
    check.fail({"mesh.replicate", "mesh.shard", "mesh.tensor"},
               fmt::format("replicate * shard * tensor = {} * {} * {} = {} ranks are too many", mesh.replicate,
                           mesh.shard, mesh.tensor, mesh.ranks()),
               fmt::format("at most {}", kMostInteger));
  }
  if (!check.sound({"model.seq", "data.batch", "data.micro_batch"})) return;
  const std::int64_t micro = lay_out(config).micro_batch;
  const std::int64_t seq = config.model.seq;
  if (micro * seq % mesh.tensor == 0) return;
  check.fail(
      {"data.micro_batch", "mesh.tensor", "model.seq", "data.batch"},
      fmt::format("micro-batch * model.seq = {} * {} = {} tokens are not divisible by "
                  "mesh.tensor = {}{}",
                  micro, seq, micro * seq, mesh.tensor, micro_batch_note(config)),
      fmt::format("the tokens of a micro-batch are spread over the tensor ranks: {}, or data.micro_batch a multiple "
                  "of {}",
                  check.tensor_ranks(micro * seq), mesh.tensor / std::gcd(seq, mesh.tensor)));
}

void check_ring(const Checker& check, const Config& config) {
  if (!check.sound({"overlap.enable", "mesh.tensor", "mesh.device"}) || config.mesh.device != Device::cuda) return;
  for (const Exchange exchange : exchanges_with(config, ExchangeMethod::ring)) {
    const std::string path = fmt::format("overlap.{}", name_of(exchange));
    if (check.sound({path}))
      check.fail({path, "mesh.device"},
                 fmt::format("{} does not go with {}", check.shown(path), check.shown("mesh.device")),
                 fmt::format("a ring passes tokens on between hosts: set {} to {}, or leave mesh.device out", path,
                             name_of(method_of_auto(exchange))));
  }
}

void check_overlap(const Checker& check, const Config& config) {
  if (!check.sound({"overlap.enable", "overlap.splits", "mesh.tensor"})) return;
  const std::int64_t others = config.mesh.tensor - 1;
  if (!config.overlap.enable || others == 0 || config.overlap.splits <= others) return;
  check.fail({"overlap.splits", "mesh.tensor"},
             fmt::format("{} is more than mesh.tensor - 1 = {}", check.shown("overlap.splits"), others),
             fmt::format("a rank multiplies the tokens of {} other {}: give at most {}, or 0 for one product for each",
                         others, others == 1 ? "rank" : "ranks", others));
}

void check_weights(const Checker& check, const Config& config) {
  const bool fp8_kept = config.fp8.on() && config.fp8.weights == Fp8Weights::fp8;  // check_fp8 reports it
  if (check.sound({"precision.compute", "fsdp.gather"}) && config.precision.compute == FloatType::fp32 &&
      config.fsdp.gather == Gather::bf16 && !fp8_kept) {
    check.fail(
        {"fsdp.gather", "precision.compute"},
        fmt::format("{} would round the weights of {}", check.shown("fsdp.gather"), check.shown("precision.compute")),
        config.fp8.on() ? "expected gather auto, fp8 or fp32, or compute bf16"
                        : "expected gather auto or fp32, or compute bf16");
  }
  if (check.sound({"fsdp.prefetch", "model.layers"}) && config.fsdp.prefetch > config.model.layers) {
    check.fail({"fsdp.prefetch", "model.layers"},
               fmt::format("{} is more than {}", check.shown("fsdp.prefetch"), check.shown("model.layers")));
  }
}

// Checks for optimizer.master = bf16_remainder.
void check_remainder(const Checker& check, const Config& config) {
  if (config.precision.compute == FloatType::fp32) {
    check.fail({"optimizer.master", "precision.compute"},
               fmt::format("{} keeps weights in BF16, {} reads them in FP32", check.shown("optimizer.master"),
                           check.shown("precision.compute")),
               "expected master fp32, or compute bf16");
  } else if (config.fsdp.gather == Gather::fp32 && !config.fp8.on()) {
    check.fail(
        {"fsdp.gather", "optimizer.master"},
        fmt::format("{} has nothing to send with {}", check.shown("fsdp.gather"), check.shown("optimizer.master")),
        "the weights are kept in BF16: expected gather auto or bf16, or master fp32");
  }
}

void check_training(const Checker& check, const Config& config) {
  const OptimizerConfig& o = config.optimizer;
  if (check.sound({"optimizer.lr", "optimizer.min_lr"}) && o.min_lr > o.lr) {
    check.fail({"optimizer.min_lr", "optimizer.lr"},
               fmt::format("{} is more than {}", check.shown("optimizer.min_lr"), check.shown("optimizer.lr")));
  }
  if (check.sound({"optimizer.master", "precision.compute", "fsdp.gather"}) && o.master == Master::bf16_remainder) {
    check_remainder(check, config);
  }
  if (check.sound({"optimizer.warmup", "optimizer.decay_steps"}) && o.warmup >= o.decay_steps) {
    check.fail(
        {"optimizer.warmup", "optimizer.decay_steps"},
        fmt::format("{} is not less than {}", check.shown("optimizer.warmup"), check.shown("optimizer.decay_steps")),
        fmt::format("set optimizer.warmup to at most {}, or leave decay_steps out", o.decay_steps - 1));
  }
  if (check.sound({"run.timing_skip", "run.steps"}) && config.run.timing_skip >= config.run.steps) {
    check.fail(
        {"run.timing_skip", "run.steps"},
        fmt::format("{} is not less than {}", check.shown("run.timing_skip"), check.shown("run.steps")),
        fmt::format("no step would be left to time: set run.timing_skip to at most {}, or run.steps to at least {}",
                    config.run.steps - 1, config.run.timing_skip + 1));
  }
  constexpr double kSeconds = 60;  // of a minute
  const RunConfig& r = config.run;
  if (check.sound({"run.margin_s", "run.time_limit_min"}) && r.time_limit_min > 0 &&
      r.margin_s >= kSeconds * r.time_limit_min) {
    check.fail({"run.margin_s", "run.time_limit_min"},
               fmt::format("{} is not less than {}, which is {} s", check.shown("run.margin_s"),
                           check.shown("run.time_limit_min"), format_real(kSeconds * r.time_limit_min)),
               "every run would stop after its first step: set run.margin_s to less");
  }
}

void check_data(const Checker& check, const Config& config) {
  if (check.sound({"data.kind", "model.vocab"}) && config.data.kind == DataKind::bytes && config.model.vocab < 256) {
    check.fail({"model.vocab"}, fmt::format("{} is less than 256", check.shown("model.vocab")),
               "data.kind = bytes makes a token of each of 256 bytes");
  }
}

/// Data for validation, and what needs them.
void check_validation(const Checker& check, const Config& config) {
  const DataConfig& d = config.data;
  if (config.run.skeleton != Skeleton::none) return;  // skeletons read no data
  if (!check.sound({"data.kind", "data.validation", "data.validation_path", "run.validate_every"})) return;
  if (d.validation > 0 && !d.validation_path.empty())
    check.fail({"data.validation_path", "data.validation"},
               fmt::format("{} and {} both give data for validation", check.shown("data.validation_path"),
                           check.shown("data.validation")),
               "the path's data are used whole, so nothing need be kept out of training: leave one of the two out");
  if (d.kind == DataKind::synthetic && !d.validation_path.empty())
    check.fail({"data.validation_path", "data.kind"},
               fmt::format("{} does not go with data.kind = synthetic", check.shown("data.validation_path")),
               "synthetic data lie in no file: set data.validation above 0 for a stream of their own");
  if (config.run.validate_every > 0 && !d.validates())
    check.fail({"run.validate_every", "data.validation"},
               fmt::format("{} without data for validation", check.shown("run.validate_every")),
               "set data.validation to the share that is kept out of training, or data.validation_path");
  if (config.run.validate_every > 0 && d.kind == DataKind::synthetic && check.sound({"run.validate_batches"}) &&
      config.run.validate_batches == 0)
    check.fail({"run.validate_every", "run.validate_batches", "data.kind"},
               "run.validate_batches = 0 means all, and data.kind = synthetic has no end", "give run.validate_batches");
  if (check.sound({"verify.validation_loss_max"}) && config.verify.validation_loss_max > 0 &&
      config.run.validate_every == 0)
    check.fail({"verify.validation_loss_max", "run.validate_every"},
               fmt::format("{} without run.validate_every", check.shown("verify.validation_loss_max")),
               "no validation would run: set run.validate_every, or leave the limit out");
}

void check_ends(const Checker& check, const Config& config) {
  const VerifyConfig& v = config.verify;
  if (check.sound({"verify.final_loss_min", "verify.final_loss_max"}) && v.final_loss_max > 0 &&
      v.final_loss_min > v.final_loss_max) {
    check.fail({"verify.final_loss_min"}, fmt::format("{} is more than {}", check.shown("verify.final_loss_min"),
                                                      check.shown("verify.final_loss_max")));
  }
  constexpr std::string_view files[] = {"output.metrics", "output.timing", "output.timing_ranks", "output.summary",
                                        "output.trace"};
  const std::string* names[] = {&config.output.metrics, &config.output.timing, &config.output.timing_ranks,
                                &config.output.summary, &config.output.trace};
  for (int i = 0; i < 5; ++i) {
    if (names[i]->empty()) continue;
    if (!is_file_name(*names[i])) {
      check.fail({files[i]}, check.shown(files[i]) + " is not the name of a file", "it is made in output.dir: no '/'");
    }
    if (*names[i] == OutputConfig::kRanks) {
      check.fail({files[i]}, check.shown(files[i]) + " is the name of another file",
                 "runs write the phases of each rank to it");
    }
    if (*names[i] == OutputConfig::kAlgorithms) {
      check.fail({files[i]}, check.shown(files[i]) + " is the name of another file",
                 "runs on devices keep their choice of matrix products in it");
    }
    if (*names[i] == OutputConfig::kOverlap) {
      check.fail({files[i]}, check.shown(files[i]) + " is the name of another file",
                 "runs keep their choice of overlap methods in it");
    }
    for (int j = i + 1; j < 5; ++j) {
      if (*names[i] != *names[j]) continue;
      check.fail({files[j], files[i]},
                 fmt::format("{} is the same file as {}", check.shown(files[j]), check.shown(files[i])));
    }
  }
}

/// The name of the trace and the steps that it has.
void check_trace(const Checker& check, const Config& config) {
  const OutputConfig& output = config.output;
  if (!output.trace.empty() && (!output.trace.ends_with(".json") || output.trace == ".json"))
    check.fail({"output.trace"}, check.shown("output.trace") + " does not end in .json",
               "expected a name such as trace.json");
  if (!check.sound({"output.trace_steps", "run.steps"})) return;
  std::string problem;
  const auto ranges = parse_trace_steps(output.trace_steps, problem);
  if (!ranges) {
    check.fail({"output.trace_steps"}, fmt::format("{}: {}", check.shown("output.trace_steps"), problem),
               "expected steps in ascending order: 7, or 7:9, or 7:9,20");
  } else if (!ranges->empty() && ranges->back().last >= config.run.steps) {
    check.fail({"output.trace_steps", "run.steps"},
               fmt::format("{}: there is no step {}", check.shown("output.trace_steps"), ranges->back().last),
               fmt::format("steps count from 0 to run.steps - 1 = {}", config.run.steps - 1));
  }
}

}  // namespace

std::string micro_batch_note(const Config& config) {
  const std::int64_t micro = lay_out(config).micro_batch;
  if (micro == config.data.micro_batch) return {};
  return fmt::format(" (ceil(data.batch / data ranks) = ceil({} / {}) = {} sequences)", config.data.batch,
                     config.mesh.data_ranks(), micro);
}

void resolve_defaults(Reading& reading) {
  Config& c = reading.config;
  // A default that depends on a key without a usable value is not usable either.
  const auto derived = [&reading](std::string_view path, std::string_view from) {
    if (reading.given(path)) return false;
    if (reading.broken.count(from) > 0) reading.broken.emplace(path);
    return true;
  };
  if (derived("model.kv_heads", "model.heads")) c.model.kv_heads = c.model.heads;
  if (c.model.head_dim == 0) {
    const bool broken = reading.broken.count("model.hidden") > 0 || reading.broken.count("model.heads") > 0;
    if (broken) reading.broken.emplace("model.head_dim");
    // If heads do not divide hidden, it stays 0 for the check.
    if (c.model.heads > 0 && c.model.hidden % c.model.heads == 0) c.model.head_dim = c.model.hidden / c.model.heads;
  }
  if (c.model.moe.on() && c.model.moe.ffn == 0) {
    if (reading.broken.count("model.ffn") > 0) reading.broken.emplace("moe.ffn");
    c.model.moe.ffn = c.model.ffn;
  }
  if (derived("model.tie_embeddings", "model.arch")) {
    c.model.tie_embeddings = c.model.arch == Arch::gpt2;
  }
  if (derived("optimizer.decay_steps", "run.steps")) {  // a run that ends within the warm-up never decays
    const std::int64_t warmed_up = std::min(c.optimizer.warmup + 1, kMostInteger);
    c.optimizer.decay_steps = std::max(c.run.steps, reading.broken.count("optimizer.warmup") > 0 ? 0 : warmed_up);
  }
  if (derived("run.timing_skip", "run.steps")) {
    c.run.timing_skip = std::min(c.run.timing_skip, c.run.steps - 1);
  }
  if (c.run.skeleton == Skeleton::none && (c.checkpoint.every > 0 || c.run.stop_after > 0) &&
      c.checkpoint.dir.empty()) {
    if (reading.broken.count("output.dir") > 0) reading.broken.emplace("checkpoint.dir");
    c.checkpoint.dir = c.output.dir + "/" + CheckpointConfig::kDefaultDir;
  }
  if (c.fp8.format == Fp8Format::automatic) c.fp8.format = format_of(c.fp8.recipe);
  if (derived("fp8.power_of_2_scales", "fp8.recipe")) {
    c.fp8.power_of_2_scales = c.fp8.recipe == Recipe::block || c.fp8.recipe == Recipe::mxfp8;
  }
  if (c.fp8.layers_with_experts(c.model) > 0 && c.model.moe.dispatch == MoeDispatch::automatic)
    c.model.moe.dispatch = c.fp8.per_tensor() ? MoeDispatch::fp8 : MoeDispatch::bf16;
  if (c.fsdp.gather == Gather::automatic) {
    const bool bf16 = c.precision.compute == FloatType::bf16;
    c.fsdp.gather = c.fp8.on() ? Gather::fp8 : bf16 ? Gather::bf16 : Gather::fp32;
  }
}

void check_together(Diagnostics& errors, const Reading& reading) {
  const Checker check(errors, reading);
  check_model(check, reading.config);
  check_mesh(check, reading.config);
  check_overlap(check, reading.config);
  check_ring(check, reading.config);
  check_weights(check, reading.config);
  check_fp8(check, reading.config);
  check_moe(check, reading.config);
  check_training(check, reading.config);
  check_data(check, reading.config);
  check_validation(check, reading.config);
  check_ends(check, reading.config);
  check_trace(check, reading.config);
  if (!reading.config.verify.gold.empty() && !reading.given("verify.tolerance")) {
    check.fail({"verify.gold"}, "verify.gold is given without verify.tolerance",
               "give the largest relative difference, 0 for bit for bit");
  }
}

}  // namespace shard8::deck

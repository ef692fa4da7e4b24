// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text.hpp"
#include "deck/choices.hpp"
#include "deck/device.hpp"
#include "deck/number.hpp"
#include "deck/overlap.hpp"

namespace shard8::deck {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

using base::count;

/// What computes a token between attention and the next layer.
std::string describe_ffn(const ModelConfig& m) {
  if (!m.moe.on()) return fmt::format("ffn {}", m.ffn);
  const std::string experts = fmt::format("{} of ffn {}", count(m.moe.experts, "expert", "experts"), m.moe.ffn);
  if (!m.has_dense_layers()) return experts;
  return fmt::format("ffn {} in the first {}, then {}", m.ffn,
                     m.moe.dense_layers == 1 ? "layer" : fmt::format("{} layers", m.moe.dense_layers), experts);
}

std::string describe_experts(const Config& config) {
  const MoeConfig& moe = config.model.moe;
  const std::int64_t expert = config.mesh.expert;
  const std::string ranks =
      expert == 1 ? "all on each rank" : fmt::format("{} on each of {} ranks", moe.experts / expert, expert);
  return fmt::format("{} of {} a token, routing {}{}, balance {}; {}; a round holds {} times the mean{}",
                     moe.experts_per_token, moe.experts, to_string(moe.routing),
                     moe.routing == MoeRouting::zipf ? fmt::format(" with skew {}", format_real(moe.skew)) : "",
                     format_real(moe.balance), ranks, format_real(moe.capacity),
                     config.sends_rows_in_fp8() ? ", rows are sent in FP8" : "");
}

std::string describe_model(const ModelConfig& m) {
  return fmt::format("{}, {}, hidden {}, {}, {} of width {} ({} kv){}, vocab {}, seq {}{}", to_string(m.arch),
                     count(m.layers, "layer", "layers"), m.hidden, describe_ffn(m), count(m.heads, "head", "heads"),
                     m.head_width(), m.kv_heads, m.qk_norm ? ", normalised queries and keys" : "", m.vocab, m.seq,
                     m.tie_embeddings ? ", tied embeddings" : "");
}

std::string describe_data(const DataConfig& data) {
  const bool file = data.kind != DataKind::synthetic;
  return fmt::format("{}{}, seed {}", to_string(data.kind), file ? " " + data.path : "", data.seed);
}

std::string describe_batch(const Config& config, const Layout& layout) {
  return fmt::format("{} a step = {} x {} x {}{}; {} tokens of a micro-batch on a tensor rank",
                     count(config.data.batch, "sequence", "sequences"),
                     count(layout.data_ranks, "data rank", "data ranks"),
                     count(layout.micro_batches, "micro-batch", "micro-batches"), layout.micro_batch,
                     layout.padding == 0 ? "" : fmt::format(" - {} of padding", layout.padding), layout.tensor_tokens);
}

std::string describe_schedule(const Config& config) {
  const OptimizerConfig& o = config.optimizer;
  return fmt::format("{}, lr {} after {}, {} at step {}", count(config.run.steps, "step", "steps"), format_real(o.lr),
                     o.warmup == 0 ? "no warm-up" : fmt::format("{} of warm-up", o.warmup), format_real(o.min_lr),
                     o.decay_steps);
}

std::string describe_weights(const Config& config) {
  const bool fp8 = config.fp8.on();  // the FP8 linears have a line of their own
  return fmt::format("{}gathered as {}, {} ahead, {} after forward; recompute {}", fp8 ? "all but FP8 linears " : "",
                     fp8 ? to_string(config.precision.compute) : to_string(config.fsdp.gather), config.fsdp.prefetch,
                     config.fsdp.reshard_after_forward ? "freed" : "kept", to_string(config.model.recompute));
}

std::string describe_fp8(const Config& config) {
  const Fp8Config& f = config.fp8;
  const std::int64_t layers = config.model.layers - f.first_layers_bf16 - f.last_layers_bf16;
  const std::string history = f.recipe == Recipe::delayed
                                  ? fmt::format(" ({} of {}, margin {})", to_string(f.amax_algo),
                                                count(f.amax_history, "step", "steps"), f.margin)
                                  : "";
  const bool kept = f.weights == Fp8Weights::fp8;
  return fmt::format("{}{}, {}, {} of {}; weights {}, gathered as {}; {}", to_string(f.recipe), history,
                     to_string(f.format), layers, count(config.model.layers, "layer", "layers"),
                     kept ? "kept as fp8" : "cast from the master for each gather", to_string(config.fsdp.gather),
                     f.power_of_2_scales ? "scales are powers of two" : "scales are not rounded");
}

std::string describe_state(const OptimizerConfig& o) {
  return fmt::format("moments in {}, master in {}", to_string(o.moments),
                     o.master == Master::fp32 ? "fp32" : "bf16 with a 16-bit remainder");
}

std::string describe_validation(const Config& config) {
  const DataConfig& data = config.data;
  const bool synthetic = data.kind == DataKind::synthetic;
  const std::string on = !data.validation_path.empty() ? data.validation_path
                         : synthetic                   ? "a stream of its own"
                                     : fmt::format("the last {} of the data", format_real(data.validation));
  if (config.run.validate_every == 0) return on + ", kept out of training; never run";
  const std::string batches =
      config.run.validate_batches == 0 ? "all batches" : count(config.run.validate_batches, "batch", "batches");
  return fmt::format("every {} and behind the last, {} of {}", count(config.run.validate_every, "step", "steps"),
                     batches, on);
}

std::string describe_stops(const RunConfig& run) {
  std::string text;
  if (run.stop_after > 0) text = fmt::format("after {}", count(run.stop_after, "step", "steps"));
  if (run.time_limit_min > 0)
    text += fmt::format("{}{} min after the start, less {}", text.empty() ? "" : "; ", format_real(run.time_limit_min),
                        run.margin_s > 0 ? format_real(run.margin_s) + " s" : "1.5 of the longest steps");
  return text;
}

std::string describe_checks(const VerifyConfig& v, std::int64_t steps) {
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (v.final_loss_max > 0) add("final loss <= " + format_real(v.final_loss_max));
  if (v.final_loss_min > 0) add("final loss >= " + format_real(v.final_loss_min));
  if (v.unigram_ratio_max > 0) {
    add(fmt::format("final loss <= {} x unigram entropy", format_real(v.unigram_ratio_max)));
  }
  if (v.validation_loss_max > 0) add("validation loss <= " + format_real(v.validation_loss_max));
  if (v.limits_final_loss() && steps < v.min_steps) text += fmt::format(" (not checked below {} steps)", v.min_steps);
  if (!v.gold.empty()) add(fmt::format("losses of {} to {}", v.gold, format_real(v.tolerance)));
  return text.empty() ? "not configured" : text;
}

std::string describe_checkpoints(const CheckpointConfig& c) {
  const std::string begin = c.restart == CheckpointConfig::kNoRestart     ? "begins at step 0"
                            : c.restart == CheckpointConfig::kAutoRestart ? "goes on from the last one"
                                                                          : "goes on from " + c.restart;
  if (c.dir.empty()) return begin;
  const std::string when = c.every == 0 ? "at a stop only" : "every " + count(c.every, "step", "steps");
  return fmt::format("{} in {}, a file for each {}, {}; {} kept; {}", when, c.dir, to_string(c.files),
                     c.async ? "written while training goes on" : "training waits", c.keep, begin);
}

}  // namespace

Layout lay_out(const Config& config) {
  Layout layout;
  layout.ranks = config.mesh.ranks();
  layout.data_ranks = config.mesh.data_ranks();
  layout.rank_batch = ceil_div(config.data.batch, layout.data_ranks);
  layout.micro_batch =
      config.data.micro_batch == 0 ? layout.rank_batch : std::min(config.data.micro_batch, layout.rank_batch);
  layout.micro_batches = ceil_div(layout.rank_batch, layout.micro_batch);
  layout.padding = layout.data_ranks * layout.micro_batches * layout.micro_batch - config.data.batch;
  layout.tensor_tokens = layout.micro_batch * config.model.seq / config.mesh.tensor;
  return layout;
}

std::string describe(const Config& config) {
  const Layout layout = lay_out(config);
  const MeshConfig& mesh = config.mesh;
  std::string text;
  const auto line = [&text](const char* name, const std::string& what) {
    text += fmt::format("{:<10} {}\n", name, what);
  };
  line("model", describe_model(config.model));
  line("mesh", fmt::format("{} = {}; backend {}, device {}", count(layout.ranks, "rank", "ranks"),
                           named_text_of(mesh.extents()), to_string(mesh.backend), to_string(mesh.device)));
  if (config.model.moe.on()) line("experts", describe_experts(config));
  line("data", describe_data(config.data));
  line("batch", describe_batch(config, layout));
  line("precision", fmt::format("compute {}, gradients reduced in {}, {}", to_string(config.precision.compute),
                                to_string(config.precision.reduce),
                                config.precision.deterministic ? "deterministic" : "not deterministic"));
  if (config.fp8.on()) line("fp8", describe_fp8(config));
  line("weights", describe_weights(config));
  if (config.overlap.enable && can_overlap(config)) line("overlap", describe_overlap(config));
  line("training", describe_schedule(config));
  const bool trains = config.run.skeleton == Skeleton::none;  // a skeleton has no losses and writes no checkpoints
  if (trains && (config.run.validate_every > 0 || config.data.validation > 0))
    line("validation", describe_validation(config));
  if (config.run.stop_after > 0 || config.run.time_limit_min > 0) line("stops", describe_stops(config.run));
  if (config.optimizer.moments != FloatType::fp32 || config.optimizer.master != Master::fp32) {
    line("optimizer", describe_state(config.optimizer));
  }
  if (trains && (!config.checkpoint.dir.empty() || config.checkpoint.restarts_from_path())) {
    line("checkpoint", describe_checkpoints(config.checkpoint));
  }
  if (trains) line("verify", describe_checks(config.verify, config.run.steps));
  line("output", config.output.dir);
  return text;
}

namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::optional<std::int64_t> number(std::string_view text) {
  text = trimmed(text);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size() && text.front() != '-';
  if (!whole || value > 2147483647) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::vector<StepRange>> parse_trace_steps(std::string_view text, std::string& problem) {
  std::vector<StepRange> ranges;
  if (trimmed(text).empty()) return ranges;
  std::int64_t steps = 0;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t comma = std::min(text.find(',', from), text.size());
    const std::string_view entry = text.substr(from, comma - from);
    from = comma + 1;
    const std::size_t colon = entry.find(':');
    const auto first = number(entry.substr(0, colon));
    const auto last = colon == std::string_view::npos ? first : number(entry.substr(colon + 1));
    if (!first || !last) {
      problem = fmt::format("'{}' is neither a step nor a range of steps", trimmed(entry));
      return std::nullopt;
    }
    if (*last < *first) {
      problem = fmt::format("the range {}:{} is empty", *first, *last);
      return std::nullopt;
    }
    if (!ranges.empty() && *first <= ranges.back().last) {
      problem = fmt::format("step {} comes after step {}", *first, ranges.back().last);
      return std::nullopt;
    }
    ranges.push_back({*first, *last});
    steps += *last - *first + 1;
  }
  if (steps > kMostTracedSteps) {
    problem = fmt::format("{} steps are too many, at most {} can be traced", steps, kMostTracedSteps);
    return std::nullopt;
  }
  return ranges;
}

std::vector<WrittenFile> written_files(const OutputConfig& output) {
  std::vector<WrittenFile> files = {{"output.summary", output.summary},
                                    {"output.metrics", output.metrics},
                                    {"output.timing", output.timing},
                                    {"output.timing_ranks", output.timing_ranks},
                                    {"output.trace", output.trace},
                                    {"ranks", OutputConfig::kRanks},
                                    {"training", kTrainingFile},
                                    {"overlap", OutputConfig::kOverlap},
                                    {"algorithms", OutputConfig::kAlgorithms},
                                    {"lock", "lock"}};
  std::erase_if(files, [](const WrittenFile& file) { return file.name.empty(); });
  return files;
}

std::vector<WrittenFile> written_files(const Config& config) {
  std::vector<WrittenFile> files = written_files(config.output);
  const bool skeleton = config.run.skeleton != Skeleton::none;
  std::erase_if(files, [&](const WrittenFile& file) {
    if (file.key == "lock") return true;
    if (file.key == "overlap") return exchanges_with(config, ExchangeMethod::automatic).empty();
    if (file.key == "algorithms") return !on_device(config.mesh);
    return skeleton && (file.key == "output.metrics" || file.key == "training");
  });
  return files;
}

bool is_file_name(std::string_view name) {
  return !name.empty() && name.find('/') == std::string_view::npos && name != "." && name != "..";
}

bool is_reserved(std::string_view name) {
  return name == "lock" || name.starts_with("lock.") || name == kTrainingFile || name.starts_with("replaced_");
}

bool is_name_of_checkpoints(std::string_view name) {
  return name == "latest" || name == "latest.tmp" || name == "lock" || name.starts_with("lock.") ||
         name == "manifest.json" || name.starts_with("step_") || name.starts_with("shard_r") ||
         name.starts_with("node_n");
}

std::optional<std::filesystem::path> default_checkpoint_folder(const Config& config) {
  const CheckpointConfig& c = config.checkpoint;
  if (!c.dir.empty() || c.restart != CheckpointConfig::kAutoRestart) return std::nullopt;
  return std::filesystem::path(config.output.dir) / CheckpointConfig::kDefaultDir;
}

}  // namespace shard8::deck

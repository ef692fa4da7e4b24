// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "base/arithmetic.hpp"
#include "deck/fields.hpp"
#include "deck/overlap.hpp"

namespace shard8::deck {
namespace {

struct Reader {
  std::string_view key;          ///< group.key; a group alone: all its keys but `switched_by`
  std::string_view switched_by;  ///< the key that decides whether `key` is read
  bool (*reads)(const Config&);
};

bool has_experts(const Config& c) { return c.model.moe.on(); }
bool in_fp8(const Config& c) { return c.fp8.on(); }
bool writes_checkpoints(const Config& c) { return !c.checkpoint.dir.empty(); }
bool delayed(const Config& c) { return c.fp8.recipe == Recipe::delayed; }

bool trains(const Config& c) { return c.run.skeleton == Skeleton::none; }
/// Whether ranks may push rows: on a device or, where the deck names no kind of device, perhaps on one.
bool may_push_rows(const Config& c) { return c.mesh.expert <= 1 || c.mesh.device != Device::host; }
bool may_overlap(const Config& c) {
  return c.mesh.exchanges() || (has_experts(c) && c.mesh.expert > 1 && may_push_rows(c));
}
bool overlaps(const Config& c) { return c.overlap.enable; }
/// Whether mesh.tensor lets the key of an exchange of the tensor group have an effect. True as well where overlaps() or
/// may_overlap() is false: another rule then names the cause.
bool tensor_overlaps(const Config& c) { return !overlaps(c) || !may_overlap(c) || c.mesh.exchanges(); }

/// "mesh.tensor could be 1, 2 or 4": the divisors of `divided`, of many those nearest to `given`.
std::string could_be(std::string_view path, std::int64_t divided, std::int64_t given) {
  constexpr std::size_t kMostShown = 4;  // on each side of `given`; chosen
  const std::vector<std::int64_t> all = base::divisors_of(divided);
  const auto above = std::upper_bound(all.begin(), all.end(), given);
  const auto from = above - all.begin() > static_cast<std::ptrdiff_t>(kMostShown) ? above - kMostShown : all.begin();
  const auto to = all.end() - above > static_cast<std::ptrdiff_t>(kMostShown) ? above + kMostShown : all.end();
  std::vector<std::string> texts;
  for (auto d = from; d != to; ++d) texts.push_back(std::to_string(*d));
  const std::vector<std::string_view> names(texts.begin(), texts.end());
  return fmt::format("{} could be {}", path, list_of(names));
}

/// With m = (1 - beta1) sum beta1^i g_i and v = (1 - beta2) sum beta2^i g_i^2 the ratio |m| / sqrt(v) is bounded
/// (Cauchy and Schwarz) if and only if beta1^2 < beta2, or beta1 = 0 and v holds the last gradient.
void warn_of_betas(const Checker& check, Diagnostics& diagnostics, const Reading& reading) {
  const OptimizerConfig& o = reading.config.optimizer;
  if (o.beta1 == 0 || o.beta1 * o.beta1 < o.beta2) return;
  const auto beta2 = reading.values.find("optimizer.beta2"), beta1 = reading.values.find("optimizer.beta1");
  const auto& where = beta2 != reading.values.end() ? beta2->second : beta1->second;  // the defaults are bounded
  diagnostics.warning(where,
                      fmt::format("{} is not more than the square of {}", check.shown("optimizer.beta2"),
                                  check.shown("optimizer.beta1")),
                      fmt::format("where gradients get smaller, updates grow without a bound; set beta2 above {:.4g}",
                                  o.beta1 * o.beta1));
}

constexpr Reader kReaders[] = {
    {"model.init_seed", "model.init_file", [](const Config& c) { return c.model.init_file.empty(); }},
    {"model.init_std", "model.init_file", [](const Config& c) { return c.model.init_file.empty(); }},
    {"model.rope_theta", "model.arch", [](const Config& c) { return c.model.arch == Arch::llama; }},
    {"moe", "moe.experts", has_experts},
    {"moe.skew", "moe.routing",
     [](const Config& c) { return !has_experts(c) || c.model.moe.routing == MoeRouting::zipf; }},
    {"moe.dispatch", "fp8.recipe", [](const Config& c) { return !has_experts(c) || in_fp8(c); }},
    {"moe.dispatch", "fp8.last_layers_bf16",  // at least the last layer has experts, so no other key takes all out
     [](const Config& c) { return !has_experts(c) || !in_fp8(c) || c.fp8.layers_with_experts(c.model) > 0; }},
    {"fp8.format", "fp8.recipe", in_fp8},
    {"fp8.amax_history", "fp8.recipe", delayed},
    {"fp8.amax_algo", "fp8.recipe", delayed},
    {"fp8.margin", "fp8.recipe", delayed},
    {"fp8.power_of_2_scales", "fp8.recipe", in_fp8},
    {"fp8.weights", "fp8.recipe", in_fp8},
    {"fp8.first_layers_bf16", "fp8.recipe", in_fp8},
    {"fp8.last_layers_bf16", "fp8.recipe", in_fp8},
    {"overlap.enable", "mesh.tensor", [](const Config& c) { return may_overlap(c); }},
    {"overlap", "overlap.enable", overlaps},
    {"overlap.proj_dgrad", "model.recompute", [](const Config& c) { return !overlaps(c) || fc2_wgrad_can_wait(c); }},
    {"overlap.fc2_dgrad", "model.recompute", [](const Config& c) { return !overlaps(c) || proj_wgrad_can_wait(c); }},
    {"overlap.dispatch", "mesh.expert",
     [](const Config& c) {
       return !overlaps(c) || !has_experts(c) || (c.mesh.expert > 1 && c.model.moe.experts > c.mesh.expert);
     }},
    {"overlap.combine", "mesh.expert", [](const Config& c) { return !overlaps(c) || c.mesh.expert > 1; }},
    {"overlap.dispatch", "mesh.device", [](const Config& c) { return !overlaps(c) || may_push_rows(c); }},
    {"overlap.combine", "mesh.device", [](const Config& c) { return !overlaps(c) || may_push_rows(c); }},
    {"overlap.dispatch", "overlap.chunks", [](const Config& c) { return !overlaps(c) || c.overlap.chunks != 1; }},
    {"overlap.dispatch", "run.skeleton", [](const Config& c) { return !overlaps(c) || trains(c); }},
    {"overlap.combine", "run.skeleton", [](const Config& c) { return !overlaps(c) || trains(c); }},
    {"overlap.dispatch", "moe.dispatch", [](const Config& c) { return !overlaps(c) || dispatch_can_go_in_parts(c); }},
    {"overlap.splits", "mesh.tensor", [](const Config& c) { return !overlaps(c) || c.mesh.tensor > 2; }},
    {"overlap.splits", "mesh.device",
     [](const Config& c) { return !overlaps(c) || c.mesh.tensor <= 2 || c.mesh.device != Device::host; }},
    {"overlap.chunks", "mesh.device", [](const Config& c) { return !overlaps(c) || c.mesh.device != Device::host; }},
    {"data.path", "data.kind", [](const Config& c) { return c.data.kind != DataKind::synthetic; }},
    {"run.validate_batches", "run.validate_every", [](const Config& c) { return c.run.validate_every > 0; }},
    {"data.validation_path", "run.validate_every", [](const Config& c) { return c.run.validate_every > 0; }},
    {"checkpoint.keep", "checkpoint.dir", writes_checkpoints},
    {"checkpoint.async", "checkpoint.dir", writes_checkpoints},
    {"checkpoint.files", "checkpoint.dir", writes_checkpoints},
    {"checkpoint.allow_changes", "checkpoint.restart",
     [](const Config& c) { return c.checkpoint.restart != CheckpointConfig::kNoRestart; }},
    {"run.skeleton_times", "run.skeleton", [](const Config& c) { return c.run.skeleton == Skeleton::communication; }},
    {"run.skeleton_load", "run.skeleton", [](const Config& c) { return c.run.skeleton == Skeleton::communication; }},
    {"output.trace_steps", "output.trace", [](const Config& c) { return !c.output.trace.empty(); }},
    {"verify.tolerance", "verify.gold", [](const Config& c) { return !c.verify.gold.empty(); }},
};

}  // namespace

bool Checker::sound(std::initializer_list<std::string_view> paths) const {
  return std::none_of(paths.begin(), paths.end(),
                      [this](std::string_view path) { return reading_.broken.find(path) != reading_.broken.end(); });
}

std::string Checker::shown(std::string_view path) const {
  const Field& field = field_at(path);
  const std::string text = value_text(field, reading_.config);
  const std::string value = fmt::format("{} = {}", path, text.empty() ? "''" : text);
  if (reading_.given(path)) return value;
  if (field.default_note.empty()) return value + " (the default)";
  return fmt::format("{} (by default {})", value, field.default_note);
}

void Checker::fail(std::initializer_list<std::string_view> blame, std::string message, std::string hint) const {
  errors_.error(place(blame), std::move(message), std::move(hint));
}

void Checker::divisible(std::string_view path, std::string_view by) const {
  if (!sound({path, by}) || integer(path) % integer(by) == 0) return;
  const std::string values = by == "mesh.tensor"   ? tensor_ranks(integer(path))
                             : by == "mesh.expert" ? expert_ranks(integer(path))
                                                   : could_be(by, integer(path), integer(by));
  fail({by, path}, fmt::format("{} is not divisible by {}", shown(path), shown(by)),
       fmt::format("{}, or {} a multiple of {}", values, path, integer(by)));
}

std::string Checker::tensor_ranks(std::int64_t divided) const {
  for (const std::string_view path : {"model.heads", "model.kv_heads", "model.ffn"})
    if (sound({path}) && (path != "model.ffn" || reading_.config.model.has_dense_layers()))
      divided = std::gcd(divided, integer(path));
  return could_be("mesh.tensor", divided, integer("mesh.tensor"));
}

std::string Checker::expert_ranks(std::int64_t divided) const {
  divided = std::gcd(divided, integer("moe.experts"));
  if (sound({"mesh.shard", "mesh.tensor"})) divided = std::gcd(divided, integer("mesh.shard") * integer("mesh.tensor"));
  return could_be("mesh.expert", divided, integer("mesh.expert"));
}

Span Checker::place(std::initializer_list<std::string_view> blame) const {
  const Span* found = nullptr;
  for (const std::string_view path : blame) {
    const auto at = reading_.values.find(path);
    if (at == reading_.values.end()) continue;
    if (found == nullptr || (found->source == 0 && at->second.source > 0)) found = &at->second;
  }
  if (found != nullptr) return *found;
  const std::string_view first = *blame.begin();
  const auto group = reading_.groups.find(first.substr(0, first.find('.')));
  return group == reading_.groups.end() ? Span{} : group->second;
}

std::int64_t Checker::integer(std::string_view path) const {
  Config copy = reading_.config;
  return std::get<Access<std::int64_t>>(field_at(path).access)(copy);
}

void warn_of_unused(Diagnostics& diagnostics, const Reading& reading) {
  const Checker check(diagnostics, reading);
  const auto warn = [&](std::string_view key, const Reader& reader) {
    const auto given = reading.values.find(key);
    if (given == reading.values.end() || key == reader.switched_by || reader.reads(reading.config)) return;
    const Field& field = field_at(key);
    if (value_text(field, reading.config) == value_text(field, Config{})) return;
    diagnostics.warning(given->second, fmt::format("{} has no effect", check.shown(key)),
                        fmt::format("nothing reads it with {}", check.shown(reader.switched_by)));
  };
  for (const Reader& reader : kReaders) {
    const Group* const group = find_group(reader.key);
    if (group == nullptr) warn(reader.key, reader);
    for (const Field& field : group == nullptr ? std::span<const Field>() : group->fields)
      warn(fmt::format("{}.{}", reader.key, field.key), reader);
  }
  for (const Exchange exchange : profile::kOverlapKeys)
    if (!of_experts(exchange))
      warn(fmt::format("overlap.{}", name_of(exchange)), {"overlap", "mesh.tensor", tensor_overlaps});
  const auto warmup = reading.values.find("optimizer.warmup");
  if (warmup != reading.values.end() && reading.config.optimizer.warmup >= reading.config.run.steps)
    diagnostics.warning(
        warmup->second,
        fmt::format("{} is not less than {}", check.shown("optimizer.warmup"), check.shown("run.steps")),
        "the run ends while the learning rate still rises; to reach optimizer.lr set a shorter warm-up");
  warn_of_betas(check, diagnostics, reading);
}

}  // namespace shard8::deck

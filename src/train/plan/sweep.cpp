// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/plan/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/arithmetic.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "deck/layout.hpp"
#include "deck/overlap.hpp"

namespace shard8::train {
namespace {

using base::Axis;
using Json = nlohmann::ordered_json;

SweepRow row_of(const deck::Config& config, int threads) {
  const Plan plan = make_plan(config, threads);
  return {.mesh = config.mesh.extents(),
          .memory = plan.needed_bytes(),
          .sent = sent_bytes(plan.traffic),
          .flops_per_rank = plan.flops_per_step / static_cast<double>(config.mesh.ranks()),
          .padding = deck::lay_out(config).padding};
}

}  // namespace

SentBytes sent_bytes(const Traffic& traffic) {
  SentBytes sent;
  for (const auto& [key, calls] : traffic) {
    const double bytes = static_cast<double>(calls) * profile::busbw(key, 1);  // of calls that take a second
    (key.group == "shard" ? sent.shard : key.group == "tensor" ? sent.tensor : sent.other) += bytes;
  }
  return sent;
}

std::vector<base::Extents> meshes_of(std::int64_t ranks, std::span<const std::int64_t> experts) {
  std::vector<base::Extents> meshes;
  for (const std::int64_t replicate : base::divisors_of(ranks)) {
    const std::int64_t model_ranks = ranks / replicate;
    for (const std::int64_t tensor : base::divisors_of(model_ranks)) {
      const base::Extents mesh(replicate, model_ranks / tensor, tensor);
      if (experts.empty()) meshes.push_back(mesh);
      for (const std::int64_t degree : experts)
        if (model_ranks % degree == 0) meshes.push_back(mesh.with_experts(static_cast<int>(degree)));
    }
  }
  return meshes;
}

Sweep sweep_meshes(std::int64_t ranks, std::span<const std::int64_t> experts, std::uint64_t most, int threads,
                   const std::function<deck::Config(const base::Extents&)>& load) {
  Sweep sweep{.ranks = ranks, .most = most};
  for (const base::Extents& mesh : meshes_of(ranks, experts)) {
    try {
      SweepRow row = row_of(load(mesh), threads);
      if (most > 0 && row.memory > most) {
        sweep.least_left_out = sweep.too_large == 0 ? row.memory : std::min(sweep.least_left_out, row.memory);
        ++sweep.too_large;
      } else {
        sweep.rows.push_back(row);
      }
    } catch (const base::Error& e) {
      if (e.code() != base::ExitCode::deck) throw;
      ++sweep.refused;
      if (sweep.why.empty()) sweep.why = e.what();
    }
  }
  std::stable_sort(sweep.rows.begin(), sweep.rows.end(),
                   [](const SweepRow& a, const SweepRow& b) { return a.sent.all() < b.sent.all(); });
  return sweep;
}

std::string to_text(const Sweep& sweep) {
  const bool experts = has_experts(sweep.rows);
  std::string text = fmt::format("{:>9} {:>7} {:>7}{} {:>12} {:>12} {:>12} {:>12} {:>12} {:>14} {:>8}\n", "replicate",
                                 "shard", "tensor", experts ? "  expert" : "", "memory GiB", "sent GiB", "of shard",
                                 "of tensor", "of others", "TFLOP a rank", "padding");
  for (const SweepRow& row : sweep.rows)
    text +=
        fmt::format("{:>9} {:>7} {:>7}{} {:>12.3f} {:>12.3f} {:>12.3f} {:>12.3f} {:>12.3f} {:>14.4g} {:>8}\n",
                    row.mesh[Axis::replicate], row.mesh[Axis::shard], row.mesh[Axis::tensor],
                    experts ? fmt::format(" {:>7}", row.mesh.expert) : "", static_cast<double>(row.memory) / base::kGiB,
                    row.sent.all() / base::kGiB, row.sent.shard / base::kGiB, row.sent.tensor / base::kGiB,
                    row.sent.other / base::kGiB, 1e-12 * row.flops_per_rank, row.padding);
  text += fmt::format("meshes of {}: {}; memory, sent bytes and FLOPs of a rank and step, fewest sent bytes first\n",
                      base::count(sweep.ranks, "rank", "ranks"), sweep.rows.size());
  if (sweep.too_large > 0)
    text += fmt::format("left out, since they need more than {:.4g} GiB a rank: {}\n",
                        static_cast<double>(sweep.most) / base::kGiB, sweep.too_large);
  if (sweep.refused > 0)
    text += fmt::format("left out, since they do not go with the deck: {}; the first:\n{}\n", sweep.refused, sweep.why);
  return text;
}

std::string to_json(const Sweep& sweep) {
  Json meshes = Json::array();
  for (const SweepRow& row : sweep.rows) {
    Json one = base::json_of<Json>(row.mesh);
    one["memory_bytes"] = row.memory;
    one["sent_bytes"] = row.sent.all();
    one["sent_bytes_shard"] = row.sent.shard;
    one["sent_bytes_tensor"] = row.sent.tensor;
    one["sent_bytes_other"] = row.sent.other;
    one["flops"] = row.flops_per_rank;
    one["padding"] = row.padding;
    meshes.push_back(std::move(one));
  }
  Json object{{"schema", 1}, {"ranks", sweep.ranks}, {"meshes", std::move(meshes)}};
  object["too_large"] = sweep.too_large;
  object["fit_bytes"] = sweep.most > 0 ? Json(sweep.most) : Json(nullptr);
  object["refused"] = sweep.refused;
  return object.dump(2);
}

std::string to_json(const Plan& plan, const deck::Config& config) {
  Json object{{"schema", 1}, {"ranks", config.mesh.ranks()}, {"mesh", base::json_of<Json>(config.mesh.extents())}};
  object["parameters"] = plan.parameters;
  object["tokens_per_step"] = plan.tokens_per_step;
  object["flops_per_step"] = plan.flops_per_step;
  if (plan.experts.mean_rows > 0)
    object["expert_rows"] = {{"mean", plan.experts.mean_rows},
                             {"round", plan.experts.round_rows},
                             {"most", plan.experts.most_rows},
                             {"most_rounds", plan.experts.most_rounds}};
  object["flops_per_rank"] = plan.flops_per_step / static_cast<double>(config.mesh.ranks());
  Json memory = Json::object();
  for (std::size_t k = 0; k < plan.memory.size(); ++k)
    memory[std::string(tensor::name_of(static_cast<tensor::MemoryKind>(k)))] = plan.memory[k];
  memory["reduction_buffers"] = plan.reduction_buffers;
  memory["user_buffers"] = plan.user_buffers;
  if (plan.device) memory["nccl"] = plan.nccl;
  memory["checkpoint_copies"] = plan.checkpoint.copies;
  memory["planned_total"] = plan.needed_bytes();
  object["memory_bytes"] = std::move(memory);
  object["checkpoint_bytes"] = {{"state", plan.checkpoint.state}, {"rank_file", plan.checkpoint.rank_file}};
  object["sent_bytes"] = sent_bytes(plan.traffic).all();
  object["collectives"] = Json::array();
  for (const auto& [key, calls] : plan.traffic)
    object["collectives"].push_back({{"operation", profile::name_of(key.op)},
                                     {"group", key.group},
                                     {"group_size", key.group_size},
                                     {"dtype", key.dtype},
                                     {"bytes", key.bytes},
                                     {"calls_per_step", calls}});
  return object.dump(2);
}

namespace {

std::string bytes_text(double bytes) {
  if (bytes >= 0.1 * 1024 * 1024 * 1024) return fmt::format("{:.2f} GiB", bytes / base::kGiB);
  if (bytes >= 0.1 * 1024 * 1024) return fmt::format("{:.2f} MiB", bytes / (1024.0 * 1024));
  return fmt::format("{:.2f} KiB", bytes / 1024.0);
}

std::string flops_text(double flops) {
  if (flops >= 1e15) return fmt::format("{:.4g} PFLOP", flops / 1e15);
  if (flops >= 1e12) return fmt::format("{:.4g} TFLOP", flops / 1e12);
  return fmt::format("{:.4g} GFLOP", flops / 1e9);
}

}  // namespace

std::string to_text(const Plan& plan, const deck::Config& config) {
  const auto ranks = static_cast<double>(config.mesh.ranks());
  std::string text =
      fmt::format("parameters        {} ({:.4g} B)\n", plan.parameters, static_cast<double>(plan.parameters) / 1e9);
  text += fmt::format("ranks             {} = {}\n", config.mesh.ranks(), named_text_of(config.mesh.extents(), " × "));
  text += fmt::format("tokens per step   {}\n", plan.tokens_per_step);
  if (plan.experts.mean_rows > 0)
    text +=
        fmt::format("experts           {} rows of a rank in a layer on average, {} in a round; at worst {}, in {}\n",
                    plan.experts.mean_rows, plan.experts.round_rows, plan.experts.most_rows,
                    base::count(plan.experts.most_rounds, "round", "rounds"));
  text += fmt::format("FLOPs per step    {}, {} per rank\n\n", flops_text(plan.flops_per_step),
                      flops_text(plan.flops_per_step / ranks));
  text +=
      plan.moved_only ? "memory that collectives move         bytes\n" : "memory per rank                      bytes\n";
  const auto memory = [&text](std::string_view what, std::size_t bytes) {
    text += fmt::format("  {:<22}{:>18}  {:>12}\n", what, bytes, bytes_text(static_cast<double>(bytes)));
  };
  for (std::size_t k = 0; k < plan.memory.size(); ++k) {
    const auto kind = static_cast<tensor::MemoryKind>(k);
    if (kind == tensor::MemoryKind::pushed && plan.memory[k] == 0) continue;
    memory(tensor::name_of(kind), plan.memory[k]);
    if (kind != tensor::MemoryKind::activations || plan.moved_only) continue;
    memory("  inputs of linears", plan.kept.linear_inputs);
    if (config.fp8.on()) memory("  attention's results", plan.kept.attention_results);
  }
  memory("reduction buffers", plan.reduction_buffers);
  if (plan.user_buffers > 0) memory("user buffers", plan.user_buffers);
  const bool checkpoints = !config.checkpoint.dir.empty() && config.run.skeleton == deck::Skeleton::none;
  if (checkpoints && !plan.device) memory("checkpoint copies", plan.checkpoint.copies);
  memory("total", plan.total_bytes());
  if (plan.nccl > 0) memory("with NCCL, about", plan.needed_bytes());
  if (!deck::exchanges_with(config, profile::ExchangeMethod::automatic).empty())
    text += "  overlap: auto counts as the key's method. A run times it and may keep off, which takes no more\n";
  if (checkpoints && plan.device) memory("pinned on the host", plan.checkpoint.copies);
  text += '\n';
  if (checkpoints) {
    text += "checkpoint, tensors only             bytes\n";
    memory("of all ranks", plan.checkpoint.state);
    memory("largest of a rank", plan.checkpoint.rank_file);
    text += '\n';
  }
  text += config.mesh.expert > 1 ? "collectives per rank and step, all_to_all of equally used experts\n"
                                 : "collectives per rank and step\n";
  text += fmt::format("  {:<15} {:<9} {:>5} {:<5} {:>14} {:>7} {:>12}\n", "operation", "group", "ranks", "dtype",
                      "bytes a call", "calls", "bytes");
  if (plan.traffic.empty()) text += "  none: one rank\n";
  for (const auto& [key, calls] : plan.traffic)
    text += fmt::format("  {:<15} {:<9} {:>5} {:<5} {:>14} {:>7} {:>12}\n", profile::name_of(key.op), key.group,
                        key.group_size, key.dtype, key.bytes, calls,
                        bytes_text(static_cast<double>(key.bytes) * static_cast<double>(calls)));
  return text;
}

}  // namespace shard8::train

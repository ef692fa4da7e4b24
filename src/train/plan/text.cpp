// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <string_view>

#include "base/text.hpp"
#include "deck/overlap.hpp"
#include "train/plan/plan.hpp"

namespace shard8::train {

namespace {

std::string bytes_text(double bytes) {
  if (bytes >= 0.1 * 1024 * 1024 * 1024) return fmt::format("{:.2f} GiB", bytes / (1024.0 * 1024 * 1024));
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

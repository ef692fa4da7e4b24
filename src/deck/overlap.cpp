// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "deck/overlap.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "deck/device.hpp"
#include "deck/layout.hpp"
#include "deck/number.hpp"

namespace shard8::deck {

namespace {

/// The method of an exchange, where auto counts as its method. Off if no product can be overlapped with the exchange.
ExchangeMethod method_of(const Config& config, Exchange exchange) {
  if (exchange == Exchange::proj_dgrad && !fc2_wgrad_can_wait(config)) return ExchangeMethod::off;
  if (exchange == Exchange::fc2_dgrad && !proj_wgrad_can_wait(config)) return ExchangeMethod::off;
  if (exchange == Exchange::dispatch && !(dispatch_can_go_in_parts(config) && rounds_have_parts(config)))
    return ExchangeMethod::off;
  const ExchangeMethod method = config.overlap.methods[exchange];
  return method == ExchangeMethod::automatic ? method_of_auto(exchange) : method;
}

/// Elements of a weight on one rank, over model.hidden: of the linear whose product is overlapped with the exchange.
std::int64_t overlapped_columns(const Config& config, Exchange exchange) {
  const ModelConfig& m = config.model;
  const std::int64_t tensor = config.mesh.tensor;
  switch (exchange) {
    case Exchange::qkv_fprop:
    case Exchange::qkv_dgrad:
    case Exchange::qkv_wgrad:
      return (m.query_width() + 2 * m.key_width()) / tensor;
    case Exchange::proj_fprop:
    case Exchange::fc2_dgrad:  // overlapped with the wgrad of proj in the layer above
      return m.query_width() / tensor;
    case Exchange::fc1_fprop:
    case Exchange::fc1_dgrad:
    case Exchange::fc1_wgrad:
      return (m.arch == Arch::llama ? 2 : 1) * m.ffn / tensor;
    case Exchange::fc2_fprop:
    case Exchange::proj_dgrad:  // overlapped with the wgrad of fc2
      return m.ffn / tensor;
    case Exchange::dispatch:
      return 2 * m.moe.ffn;
    case Exchange::combine:
      return m.moe.ffn;
    default:
      return (m.vocab + tensor - 1) / tensor;
  }
}

/// Whether the product overlapped with the exchange, with all tokens of a micro-batch, or the rows of experts that a
/// rank receives on average, has overlap.min_gflop on one rank or more: 2 M N K / 1e9. Forward, dgrad and wgrad have
/// equally many.
bool large_enough(const Config& config, Exchange exchange) {
  if (config.overlap.min_gflop == 0) return true;
  const std::int64_t tokens =
      lay_out(config).tensor_tokens * (of_experts(exchange) ? config.model.moe.experts_per_token : config.mesh.tensor);
  const double gflop = 2e-9 * static_cast<double>(tokens) * static_cast<double>(overlapped_columns(config, exchange)) *
                       static_cast<double>(config.model.hidden);
  return gflop >= config.overlap.min_gflop;
}

}  // namespace

bool fc2_wgrad_can_wait(const Config& config) {
  return config.model.recompute != Recompute::selective || !config.fp8.on();
}

bool proj_wgrad_can_wait(const Config& config) {
  return config.model.recompute != Recompute::full && fc2_wgrad_can_wait(config);
}

bool dispatch_can_go_in_parts(const Config& config) {
  if (!config.fp8.on() || config.sends_rows_in_fp8()) return true;
  return config.fp8.layers_with_experts(config.model) < config.model.expert_layers();
}

bool rounds_have_parts(const Config& config) {
  return std::min<std::int64_t>(expert_chunks(config), config.model.moe.experts / config.mesh.expert) > 1;
}

bool pushes_rows(const Config& config) {
  return config.model.moe.on() && config.mesh.expert > 1 && on_device(config.mesh) &&
         config.run.skeleton == Skeleton::none;
}

namespace {

/// Whether a step has the exchange and the product that it overlaps with. Layers with experts have no fc1 and no fc2,
/// whose wgrad overlaps with proj_dgrad.
bool occurs(const Config& config, Exchange exchange) {
  if (!config.overlap.enable) return false;
  if (of_experts(exchange)) return pushes_rows(config);
  const bool of_block = name_of(exchange).starts_with("fc") || exchange == Exchange::proj_dgrad;
  return config.mesh.exchanges() && (!of_block || config.model.has_dense_layers());
}

}  // namespace

ExchangeMethods exchange_methods(const Config& config) {
  ExchangeMethods methods{};
  for (const Exchange exchange : profile::kOverlapKeys)
    if (occurs(config, exchange) && large_enough(config, exchange)) methods[exchange] = method_of(config, exchange);
  return methods;
}

std::vector<Exchange> exchanges_with(const Config& config, ExchangeMethod value) {
  std::vector<Exchange> exchanges;
  for (const Exchange exchange : profile::kOverlapKeys)
    if (occurs(config, exchange) && config.overlap.methods[exchange] == value) exchanges.push_back(exchange);
  return exchanges;
}

int pipeline_chunks(const Config& config) {
  if (config.overlap.chunks > 0) return static_cast<int>(config.overlap.chunks);
  return config.mesh.tensor == 2 ? 2 : 1;
}

int expert_chunks(const Config& config) {
  return config.overlap.chunks > 0 ? static_cast<int>(config.overlap.chunks) : 2;
}

std::string describe_overlap(const Config& config) {
  std::string text, small;
  const auto add = [](std::string& names, Exchange exchange) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(exchange));
  };
  for (const ExchangeMethod method :
       {ExchangeMethod::direct, ExchangeMethod::pipeline, ExchangeMethod::ring, ExchangeMethod::bulk}) {
    std::string names;
    for (const Exchange exchange : profile::kOverlapKeys)
      if (occurs(config, exchange) && method_of(config, exchange) == method)
        add(large_enough(config, exchange) ? names : small, exchange);
    if (!names.empty()) text += fmt::format("{}{} for {}", text.empty() ? "" : "; ", name_of(method), names);
  }
  const bool none = text.empty();
  if (none) text = "no exchange";
  if (!small.empty())
    text += fmt::format("; off, below overlap.min_gflop = {}, for {}", format_real(config.overlap.min_gflop), small);
  if (!none && !exchanges_with(config, ExchangeMethod::automatic).empty())
    text += "; of the keys that are auto, a run keeps those that it times as faster";
  return text;
}

}  // namespace shard8::deck

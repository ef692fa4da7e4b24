// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "deck/overlap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <stdexcept>
#include <variant>

#include "deck/fields.hpp"
#include "deck/layout.hpp"
#include "deck/number.hpp"

namespace shard8::deck {

namespace {

constexpr std::string_view kAuto = "auto", kRing = "ring";

/// The keys with this value.
std::vector<std::string_view> keys_with(const Config& config, std::string_view value) {
  std::vector<std::string_view> keys;
  if (!config.overlap.enable || config.mesh.tensor == 1) return keys;
  for (const Field& field : overlap_fields()) {
    const auto* choice = std::get_if<ChoiceAccess>(&field.slot);
    if (choice != nullptr && choice->names[static_cast<std::size_t>(choice->get(config))] == value)
      keys.push_back(field.key);
  }
  return keys;
}

}  // namespace

bool fc2_wgrad_can_wait(const Config& config) {
  return config.model.recompute != Recompute::selective || !config.fp8.on();
}

bool proj_wgrad_can_wait(const Config& config) {
  return config.model.recompute != Recompute::full && fc2_wgrad_can_wait(config);
}

double product_gflop(const Config& config, OverlapLinear linear) {
  const ModelConfig& m = config.model;
  const std::int64_t tensor = config.mesh.tensor;
  const auto columns = [&] {
    switch (linear) {
      case OverlapLinear::qkv:
        return (m.heads + 2 * m.kv_heads) / tensor * (m.hidden / m.heads);
      case OverlapLinear::proj:
        return m.hidden / tensor;
      case OverlapLinear::fc1:
        return (m.arch == Arch::llama ? 2 : 1) * m.ffn / tensor;
      case OverlapLinear::fc2:
        return m.ffn / tensor;
      case OverlapLinear::head:
        break;
    }
    return (m.vocab + tensor - 1) / tensor;
  };
  const std::int64_t tokens = lay_out(config).tensor_tokens * tensor;
  return 2e-9 * static_cast<double>(tokens) * static_cast<double>(columns()) * static_cast<double>(m.hidden);
}

bool large_enough(const Config& config, OverlapLinear linear) {
  return config.overlap.min_gflop == 0 || product_gflop(config, linear) >= config.overlap.min_gflop;
}

int pipeline_chunks(const Config& config) {
  if (config.overlap.chunks > 0) return static_cast<int>(config.overlap.chunks);
  return config.mesh.tensor == 2 ? 2 : 1;
}

std::string describe_overlap(const Config& config) {
  using Linear = OverlapLinear;
  struct Key {
    const char* name;
    bool on;
    Linear beside;  ///< whose product
  };
  const OverlapConfig& o = config.overlap;
  std::string text, small;
  const auto add = [](std::string& names, const char* name) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  };
  const auto list = [&](const char* method, std::initializer_list<Key> keys) {
    std::string names;
    for (const auto& [name, on, beside] : keys)
      if (on) add(large_enough(config, beside) ? names : small, name);
    if (!names.empty()) text += fmt::format("{}{} for {}", text.empty() ? "" : "; ", method, names);
  };
  const auto direct = [](GatherMethod key) { return key != GatherMethod::off && key != GatherMethod::ring; };
  const auto pipeline = [](ScatterMethod key) { return key != ScatterMethod::off && key != ScatterMethod::ring; };
  list("direct", {{"qkv_fprop", direct(o.qkv_fprop), Linear::qkv},
                  {"fc1_fprop", direct(o.fc1_fprop), Linear::fc1},
                  {"head_fprop", direct(o.head_fprop), Linear::head}});
  list("pipeline",
       {{"proj_fprop", pipeline(o.proj_fprop), Linear::proj}, {"fc2_fprop", pipeline(o.fc2_fprop), Linear::fc2}});
  list("ring", {{"qkv_fprop", o.qkv_fprop == GatherMethod::ring, Linear::qkv},
                {"proj_fprop", o.proj_fprop == ScatterMethod::ring, Linear::proj},
                {"fc1_fprop", o.fc1_fprop == GatherMethod::ring, Linear::fc1},
                {"fc2_fprop", o.fc2_fprop == ScatterMethod::ring, Linear::fc2},
                {"head_fprop", o.head_fprop == GatherMethod::ring, Linear::head}});
  list("bulk", {{"qkv_dgrad", o.qkv_dgrad != OverlapMethod::off, Linear::qkv},
                {"proj_dgrad", o.proj_dgrad != OverlapMethod::off && fc2_wgrad_can_wait(config), Linear::fc2},
                {"fc1_dgrad", o.fc1_dgrad != OverlapMethod::off, Linear::fc1},
                {"fc2_dgrad", o.fc2_dgrad != OverlapMethod::off && proj_wgrad_can_wait(config), Linear::proj},
                {"qkv_wgrad", o.qkv_wgrad != OverlapMethod::off, Linear::qkv},
                {"fc1_wgrad", o.fc1_wgrad != OverlapMethod::off, Linear::fc1},
                {"head_dgrad", o.head_dgrad != OverlapMethod::off, Linear::head}});
  const bool none = text.empty();
  if (none) text = "none of the tensor group's exchanges";
  if (!small.empty())
    text += fmt::format("; off, below overlap.min_gflop = {}, for {}", format_real(o.min_gflop), small);
  if (!none && !auto_overlap_keys(config).empty())
    text += "; of the keys that are auto, a run keeps those that it times as faster";
  return text;
}

std::vector<std::string_view> auto_overlap_keys(const Config& config) { return keys_with(config, kAuto); }
std::vector<std::string_view> ring_overlap_keys(const Config& config) { return keys_with(config, kRing); }

std::string_view instead_of_ring(std::string_view key) {
  return key == "proj_fprop" || key == "fc2_fprop" ? "pipeline" : "direct";
}

void set_overlap_key(Config& config, std::string_view key, std::string_view value) {
  const auto* choice = std::get_if<ChoiceAccess>(&field_at(fmt::format("overlap.{}", key)).slot);
  if (choice == nullptr) throw std::logic_error(fmt::format("overlap.{} has no method", key));
  const auto found = std::find(choice->names.begin(), choice->names.end(), value);
  if (found == choice->names.end()) throw std::logic_error(fmt::format("overlap.{} cannot be '{}'", key, value));
  choice->set(config, static_cast<int>(found - choice->names.begin()));
}

}  // namespace shard8::deck

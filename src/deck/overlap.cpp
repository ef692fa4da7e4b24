// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "deck/overlap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <stdexcept>
#include <utility>
#include <variant>

#include "deck/fields.hpp"

namespace shard8::deck {

namespace {

constexpr std::string_view kAuto = "auto";

}  // namespace

bool fc2_wgrad_can_wait(const Config& config) {
  return config.model.recompute != Recompute::selective || !config.fp8.on();
}

bool proj_wgrad_can_wait(const Config& config) {
  return config.model.recompute != Recompute::full && fc2_wgrad_can_wait(config);
}

std::string describe_overlap(const Config& config) {
  const OverlapConfig& o = config.overlap;
  std::string text;
  const auto list = [&](const char* method, std::initializer_list<std::pair<const char*, bool>> keys) {
    std::string names;
    for (const auto& [name, on] : keys)
      if (on) names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
    if (!names.empty()) text += fmt::format("{}{} for {}", text.empty() ? "" : "; ", method, names);
  };
  list("direct", {{"qkv_fprop", o.qkv_fprop != GatherMethod::off},
                  {"fc1_fprop", o.fc1_fprop != GatherMethod::off},
                  {"head_fprop", o.head_fprop != GatherMethod::off}});
  list("pipeline",
       {{"proj_fprop", o.proj_fprop != ScatterMethod::off}, {"fc2_fprop", o.fc2_fprop != ScatterMethod::off}});
  list("bulk", {{"qkv_dgrad", o.qkv_dgrad != OverlapMethod::off},
                {"proj_dgrad", o.proj_dgrad != OverlapMethod::off && fc2_wgrad_can_wait(config)},
                {"fc1_dgrad", o.fc1_dgrad != OverlapMethod::off},
                {"fc2_dgrad", o.fc2_dgrad != OverlapMethod::off && proj_wgrad_can_wait(config)},
                {"qkv_wgrad", o.qkv_wgrad != OverlapMethod::off},
                {"fc1_wgrad", o.fc1_wgrad != OverlapMethod::off},
                {"head_dgrad", o.head_dgrad != OverlapMethod::off}});
  if (text.empty()) return "none of the tensor group's exchanges";
  if (!auto_overlap_keys(config).empty())
    text += "; of the keys that are auto, a run keeps those that it times as faster";
  return text;
}

std::vector<std::string_view> auto_overlap_keys(const Config& config) {
  std::vector<std::string_view> keys;
  if (!config.overlap.enable || config.mesh.tensor == 1) return keys;
  for (const Field& field : overlap_fields()) {
    const auto* choice = std::get_if<ChoiceAccess>(&field.slot);
    if (choice != nullptr && choice->names[static_cast<std::size_t>(choice->get(config))] == kAuto)
      keys.push_back(field.key);
  }
  return keys;
}

void set_overlap_key(Config& config, std::string_view key, std::string_view value) {
  const auto* choice = std::get_if<ChoiceAccess>(&field_at(fmt::format("overlap.{}", key)).slot);
  if (choice == nullptr) throw std::logic_error(fmt::format("overlap.{} has no method", key));
  const auto found = std::find(choice->names.begin(), choice->names.end(), value);
  if (found == choice->names.end()) throw std::logic_error(fmt::format("overlap.{} cannot be '{}'", key, value));
  choice->set(config, static_cast<int>(found - choice->names.begin()));
}

}  // namespace shard8::deck

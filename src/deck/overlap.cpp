// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "deck/overlap.hpp"

#include <fmt/format.h>

#include <utility>

namespace shard8::deck {

bool fc2_wgrad_can_wait(const Config& config) {
  return config.model.recompute != Recompute::selective || !config.fp8.on();
}

bool proj_wgrad_can_wait(const Config& config) {
  return config.model.recompute != Recompute::full && fc2_wgrad_can_wait(config);
}

std::string describe_overlap(const Config& config) {
  const OverlapConfig& o = config.overlap;
  const std::pair<const char*, bool> methods[] = {
      {"qkv_dgrad", o.qkv_dgrad != OverlapMethod::off},
      {"proj_dgrad", o.proj_dgrad != OverlapMethod::off && fc2_wgrad_can_wait(config)},
      {"fc1_dgrad", o.fc1_dgrad != OverlapMethod::off},
      {"fc2_dgrad", o.fc2_dgrad != OverlapMethod::off && proj_wgrad_can_wait(config)},
      {"qkv_wgrad", o.qkv_wgrad != OverlapMethod::off},
      {"fc1_wgrad", o.fc1_wgrad != OverlapMethod::off},
      {"head_dgrad", o.head_dgrad != OverlapMethod::off}};
  std::string names;
  for (const auto& [name, on] : methods)
    if (on) names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  return names.empty() ? "none of the tensor group's exchanges" : "bulk for " + names;
}

}  // namespace shard8::deck

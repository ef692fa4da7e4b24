// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "deck/overlap.hpp"

#include <fmt/format.h>

#include <initializer_list>
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
  std::string text;
  const auto list = [&](const char* method, std::initializer_list<std::pair<const char*, bool>> keys) {
    std::string names;
    for (const auto& [name, on] : keys)
      if (on) names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
    if (!names.empty()) text += fmt::format("{}{} for {}", text.empty() ? "" : "; ", method, names);
  };
  list("direct",
       {{"qkv_fprop", o.qkv_fprop != GatherMethod::off}, {"fc1_fprop", o.fc1_fprop != GatherMethod::off}});
  list("pipeline",
       {{"proj_fprop", o.proj_fprop != ScatterMethod::off}, {"fc2_fprop", o.fc2_fprop != ScatterMethod::off}});
  list("bulk", {{"qkv_dgrad", o.qkv_dgrad != OverlapMethod::off},
                {"proj_dgrad", o.proj_dgrad != OverlapMethod::off && fc2_wgrad_can_wait(config)},
                {"fc1_dgrad", o.fc1_dgrad != OverlapMethod::off},
                {"fc2_dgrad", o.fc2_dgrad != OverlapMethod::off && proj_wgrad_can_wait(config)},
                {"qkv_wgrad", o.qkv_wgrad != OverlapMethod::off},
                {"fc1_wgrad", o.fc1_wgrad != OverlapMethod::off},
                {"head_dgrad", o.head_dgrad != OverlapMethod::off}});
  return text.empty() ? "none of the tensor group's exchanges" : text;
}

}  // namespace shard8::deck

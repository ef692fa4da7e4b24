// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/saved_choices.hpp"

#include <algorithm>
#include <string_view>

namespace shard8::train {

namespace {

constexpr std::string_view kOverlap = "overlap ";

}  // namespace

std::string plan_text(const SavedChoices& choices) {
  if (choices.overlap.empty()) return choices.algorithms;
  std::string overlap = choices.overlap;
  std::replace(overlap.begin(), overlap.end(), '\n', ' ');  // which JSON takes for the same
  return std::string(kOverlap) + overlap + '\n' + choices.algorithms;
}

SavedChoices choices_of_plan(const std::string& plan) {
  if (!plan.starts_with(kOverlap)) return {plan, {}};
  const std::size_t end = std::min(plan.find('\n'), plan.size());
  return {plan.substr(std::min(end + 1, plan.size())), plan.substr(kOverlap.size(), end - kOverlap.size())};
}

}  // namespace shard8::train

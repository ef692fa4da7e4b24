// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shard8::profile {

/// How the figures of all ranks come together, given from outside. Each function is collective: every rank calls it
/// alike.
struct Gather {
  int ranks = 1;
  /// Every rank's values, in rank order. Every rank gives equally many.
  std::function<std::vector<double>(std::span<const double>)> doubles;
  /// Every rank's text, in rank order.
  std::function<std::vector<std::string>(std::string_view)> texts;
  /// Replaces `text` by that of `rank`.
  std::function<void(std::string& text, int rank)> broadcast;
};

/// Bytes of all ranks' values that a rank holds at once (chosen: few calls for small jobs, little memory for large
/// ones), or one value of every rank where that is more.
inline constexpr std::size_t kGatheredBytes = std::size_t{1} << 20;

/// Gathers the ranks' values block by block and calls use(i, value i of every rank in rank order) for each of `mine`.
/// Collective: every rank gives equally many values.
void for_each_gathered(std::span<const double> mine, const Gather& gather,
                       const std::function<void(std::size_t i, std::span<const double> of_ranks)>& use);

}  // namespace shard8::profile

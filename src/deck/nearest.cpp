// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/nearest.hpp"

#include <algorithm>
#include <cctype>
#include <vector>

namespace shard8::deck {
namespace {

constexpr std::size_t kLongestName = 64;

bool same(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> two_up, up, row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    two_up = std::move(up);
    up = row;
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t cost = same(a[i - 1], b[j - 1]) ? 0 : 1;
      row[j] = std::min({up[j] + 1, row[j - 1] + 1, up[j - 1] + cost});
      const bool swapped = i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]);
      if (swapped) row[j] = std::min(row[j], two_up[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
  if (word.size() > kLongestName) return {};
  std::string_view best;
  std::size_t least = kLongestName;
  for (const std::string_view candidate : candidates) {
    const std::size_t far = distance(word, candidate);
    if (far < least && 3 * far <= std::max(word.size(), candidate.size())) {
      least = far;
      best = candidate;
    }
  }
  return best;
}

}  // namespace shard8::deck

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/sequences/sequence.hpp"

#include <algorithm>

#include "tests/random/draw.hpp"

namespace shard8::test {

namespace {

constexpr std::array<std::string_view, kOperations> kNames = {
    "run",          "stop",   "signal", "kill",       "again",   "fork",   "fork_changed", "edit",
    "edit_refused", "append", "move",   "other_data", "mesh",    "folder", "two_output",   "two_ckpt",
    "prune",        "damage", "verify", "none",       "replace", "requeue"};

/// A closed path through all ordered pairs of operations (Hierholzer's algorithm): each operation but the last one and
/// the one after it are a pair.
std::vector<Operation> draw_path(Draw& draw) {
  std::array<std::vector<std::size_t>, kOperations> left;  // second operations that have not come yet
  for (auto& seconds : left) {
    for (std::size_t second = 0; second < kOperations; ++second) seconds.push_back(second);
    for (std::size_t i = seconds.size(); i > 1; --i)
      std::swap(seconds[i - 1], seconds[static_cast<std::size_t>(draw.between(0, static_cast<std::int64_t>(i) - 1))]);
  }
  std::vector<std::size_t> stack = {static_cast<std::size_t>(draw.between(0, kOperations - 1))};
  std::vector<Operation> path;
  while (!stack.empty()) {
    auto& seconds = left[stack.back()];
    if (seconds.empty()) {
      path.push_back(static_cast<Operation>(stack.back()));
      stack.pop_back();
    } else {
      stack.push_back(seconds.back());
      seconds.pop_back();
    }
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace

std::string_view name_of(Operation operation) { return kNames[static_cast<std::size_t>(operation)]; }

std::vector<Drawn> draw_sequences(std::uint64_t seed, std::int64_t count) {
  constexpr std::int64_t kFewest = 7, kMost = 12;  // pairs of a sequence
  std::vector<Drawn> sequences;
  for (std::int64_t block = 0; static_cast<std::int64_t>(sequences.size()) < count; ++block) {
    Draw draw(seed, block, 0, "path");
    const auto path = draw_path(draw);
    const auto pairs = static_cast<std::int64_t>(path.size()) - 1;
    for (std::int64_t begin = 0; begin < pairs;) {
      const std::int64_t rest = pairs - begin;
      std::int64_t length = draw.between(kFewest, kMost);
      if (rest <= kMost + 1) length = rest;
      if (rest > kMost + 1 && rest - length < kFewest) length = kFewest;  // then the rest has 7 pairs or more
      Drawn drawn;
      drawn.begins_with_stop = draw.chance(0.7) && length <= kMost;
      if (drawn.begins_with_stop) drawn.operations.push_back(Operation::stop);
      drawn.operations.insert(drawn.operations.end(), path.begin() + begin, path.begin() + begin + length + 1);
      sequences.push_back(std::move(drawn));
      begin += length;
    }
  }
  sequences.resize(static_cast<std::size_t>(count));
  return sequences;
}

void count_pairs(PairCounts& counts, const std::vector<Operation>& operations) {
  for (std::size_t i = 1; i < operations.size(); ++i)
    ++counts[static_cast<std::size_t>(operations[i - 1])][static_cast<std::size_t>(operations[i])];
}

}  // namespace shard8::test

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/step_times.hpp"

#include <algorithm>
#include <cmath>

#include "base/arithmetic.hpp"
#include "base/error.hpp"
#include "profile/spread.hpp"

namespace shard8::profile {

namespace {

template <std::size_t n>
void add(std::array<double, n>& sum, const std::array<double, n>& more) {
  for (std::size_t i = 0; i < n; ++i) sum[i] += more[i];
}

/// True with the probability 1/n. Another number `draw` is another draw.
bool one_of(std::int64_t n, std::uint64_t draw) { return base::mix64(draw) % static_cast<std::uint64_t>(n) == 0; }

}  // namespace

StepTimes& StepTimes::operator+=(const StepTimes& other) {
  total += other.total;
  add(phase, other.phase);
  for (std::size_t direction = 0; direction < part.size(); ++direction) add(part[direction], other.part[direction]);
  add(exchange, other.exchange);
  experts += other.experts;
  return *this;
}

void StepRecord::reserve(std::int64_t steps) {
  const auto more = static_cast<std::size_t>(std::max<std::int64_t>(steps, 0));
  blocks_.reserve(std::min(more, most_blocks_ - blocks_.size()) + blocks_.size());
}

void StepRecord::add(const StepTimes& step) {
  if (skipped_ < skip_) {
    ++skipped_;
    skipped_sum_ += step;
    return;
  }
  if (blocks_.empty() || blocks_.back().steps == block_steps_) {
    if (blocks_.size() == most_blocks_) merge_neighbours();
    blocks_.emplace_back();
  }
  sum_ += step;
  Block& block = blocks_.back();
  block.sum += step;
  ++block.steps;
  if (one_of(block.steps, static_cast<std::uint64_t>(measured_))) block.drawn_s = step.total;
  ++measured_;
}

void StepRecord::merge_neighbours() {
  SHARD8_REQUIRE(most_blocks_ > 0 && most_blocks_ % 2 == 0, "{} blocks cannot be merged in pairs", most_blocks_);
  for (std::size_t i = 0; i < blocks_.size() / 2; ++i) {
    const Block second = blocks_[2 * i + 1];
    Block& block = blocks_[i] = blocks_[2 * i];
    block.sum += second.sum;
    block.steps += second.steps;
    // The number is that of no step: steps draw with small ones.
    const auto draw = static_cast<std::uint64_t>(block_steps_) << 48 | i;
    if (one_of(2, ~draw)) block.drawn_s = second.drawn_s;
  }
  blocks_.resize(blocks_.size() / 2);
  block_steps_ *= 2;
}

std::string_view name_of(Issue issue) {
  constexpr std::string_view names[] = {"gather", "layer forward", "layer backward", "optimizer"};
  return names[static_cast<std::size_t>(issue)];
}

void CallTimes::add(double seconds) {
  if (first_.size() < kExact) first_.push_back(seconds);
  ++calls_;
  sum_s_ += seconds;
  longest_s_ = std::max(longest_s_, seconds);
  int power = 0;
  const double share = std::frexp(std::max(1e9 * seconds, 1.0), &power);  // from 0.5 up to but not including 1
  const int bin = (power - 1) * kBins + static_cast<int>((2 * share - 1) * kBins);
  ++counts_[static_cast<std::size_t>(std::min(bin, kPowers * kBins - 1))];
}

double CallTimes::median_s() const {
  if (calls_ <= kExact) return percentile(first_, 50);
  std::uint64_t below = 0;
  int bin = 0;
  for (; bin + 1 < kPowers * kBins; ++bin) {
    below += counts_[static_cast<std::size_t>(bin)];
    if (2 * below >= calls_) break;
  }
  const double middle = 1 + (bin % kBins + 0.5) / kBins;
  return std::min(1e-9 * std::ldexp(middle, bin / kBins), longest_s_);
}

void CallTimes::clear() {
  calls_ = 0;
  sum_s_ = longest_s_ = 0;
  first_.clear();
  counts_.fill(0);
}

}  // namespace shard8::profile

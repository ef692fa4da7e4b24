// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/issue_times.hpp"

#include <algorithm>
#include <cmath>

#include "profile/spread.hpp"

namespace shard8::profile {

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

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/compare_off.hpp"

#include <fmt/format.h>

#include "profile/spread.hpp"

namespace shard8::profile {
namespace {

double median_of(const std::vector<std::vector<double>>& blocks) {
  std::vector<double> steps;
  for (const auto& block : blocks) steps.insert(steps.end(), block.begin(), block.end());
  return percentile(std::move(steps), 50);
}

}  // namespace

double CompareOff::with_s() const { return median_of(with); }
double CompareOff::without_s() const { return median_of(without); }

std::string to_text(const CompareOff& compared) {
  if (!compared.measured())
    return fmt::format("step time with overlap: not compared with off, cut short by {}\n", compared.cut_short);
  return fmt::format("step time with overlap {:.3f} ms, without {:.3f} ms (ratio {:.3f}, blocks {}){}\n",
                     1e3 * compared.with_s(), 1e3 * compared.without_s(), compared.ratio(), compared.blocks(),
                     compared.cut_short.empty() ? "" : ", cut short by " + compared.cut_short);
}

}  // namespace shard8::profile

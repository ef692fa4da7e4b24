// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/gemm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace shard8::bench {

std::string gemm_table(train::Assembly& assembly) {
  assembly.start(kernels::Tuning::exhaustive);
  std::vector<kernels::Libraries::Choice> choices = assembly.trainer().libraries()->choices();
  std::sort(choices.begin(), choices.end(),
            [](const auto& a, const auto& b) { return a.microseconds > b.microseconds; });
  std::string text = fmt::format("{:>10} {:>10} {:>10} {:>10} {:>8} {:>7}  {}\n", "us", "TFLOP/s", "first us",
                                 "best us", "of best", "guess", "product");
  for (const auto& c : choices) {
    const auto share = c.best_microseconds > 0
                           ? fmt::format("{:.1f} %", 100.0 * std::min(1.0f, c.best_microseconds / c.microseconds))
                           : std::string("-");
    text += fmt::format("{:>10.1f} {:>10.1f} {:>10.1f} {:>10.1f} {:>8} {:>3}/{:<3}  {}{}\n", c.microseconds,
                        1e-6 * c.flops / static_cast<double>(c.microseconds), c.first_microseconds, c.best_microseconds,
                        share, c.guess + 1, c.guesses, c.product, c.searched.empty() ? "" : "; " + c.searched);
  }
  return text;
}

}  // namespace shard8::bench

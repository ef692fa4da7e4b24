// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace shard8::bench {

GemmRows bench_gemm(train::Assembly& assembly) {
  assembly.start(kernels::Tuning::exhaustive);
  GemmRows rows = assembly.trainer().libraries()->choices();
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.microseconds > b.microseconds; });
  return rows;
}

std::string to_text(const GemmRows& rows) {
  std::string text = fmt::format("{:>10} {:>10} {:>10} {:>10} {:>8} {:>7}  {}\n", "us", "TFLOP/s", "first us",
                                 "best us", "of best", "guess", "product");
  for (const auto& c : rows) {
    const auto share = c.best_microseconds > 0
                           ? fmt::format("{:.1f} %", 100.0 * std::min(1.0f, c.best_microseconds / c.microseconds))
                           : std::string("-");
    const auto guess = c.cutlass ? std::string("CUTLASS") : fmt::format("{}/{}", c.guess + 1, c.guesses);
    text += fmt::format("{:>10.1f} {:>10.1f} {:>10.1f} {:>10.1f} {:>8} {:>7}  {}{}\n", c.microseconds,
                        1e-6 * c.flops / static_cast<double>(c.microseconds), c.first_microseconds, c.best_microseconds,
                        share, guess, c.product, c.searched.empty() ? "" : "; " + c.searched);
  }
  return text;
}

std::string to_json(const GemmRows& rows, const Measured& measured) {
  using Json = nlohmann::ordered_json;
  const auto milliseconds = [](float us) { return us > 0 ? Json(1e-3 * static_cast<double>(us)) : Json(); };
  Json out{{"bench", "gemm"},           {"machine", measured.machine}, {"version", measured.version},
           {"commit", measured.commit}, {"date", measured.date},       {"rows", Json::array()}};
  for (const auto& c : rows) {
    out["rows"].push_back({{"key", fmt::format("{}x{}x{} {}", c.m, c.n, c.k, c.dtype)},
                           {"product", c.product},
                           {"m", c.m},
                           {"n", c.n},
                           {"k", c.k},
                           {"dtype", c.dtype},
                           {"out_dtype", c.out_dtype},
                           {"library", c.cutlass ? "CUTLASS" : "cuBLASLt"},
                           {"product_ms", milliseconds(c.microseconds)},
                           {"first_ms", milliseconds(c.first_microseconds)},
                           {"best_ms", milliseconds(c.best_microseconds)},
                           {"searched", c.searched}});
  }
  return out.dump(2);
}

}  // namespace shard8::bench

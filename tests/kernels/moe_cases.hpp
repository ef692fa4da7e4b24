// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/moe.hpp"
#include "tests/kernels/buffer.hpp"

/// Inputs of the tests of a layer of experts.
namespace shard8::tests {

using Doubles = std::vector<double>;

inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

struct MoeCase {
  std::int64_t tokens, experts, per_token;
};
/// No token, one token, odd numbers of tokens; one expert, all experts chosen, many experts; more pairs than a team of
/// a device has threads.
inline const std::vector<MoeCase> kMoeCases{{0, 8, 2},  {1, 1, 1},   {1, 128, 8}, {7, 128, 64}, {33, 5, 5},
                                            {31, 8, 1}, {65, 40, 3}, {3, 300, 7}, {2501, 7, 3}};

/// 1 for tokens, 0 for padding: every fifth token.
inline Buffer moe_token_weights(std::int64_t tokens) {
  Doubles weights(at(tokens), 1);
  for (std::size_t t = 4; t < weights.size(); t += 5) weights[t] = 0;
  return {{tokens}, DType::fp32, weights};
}

/// Distinct experts of each token, at random.
inline Buffer moe_chosen(const MoeCase& c, unsigned seed) {
  std::mt19937_64 engine(seed);
  std::vector<double> experts(at(c.experts)), chosen;
  std::iota(experts.begin(), experts.end(), 0.0);
  for (std::int64_t t = 0; t < c.tokens; ++t) {
    std::shuffle(experts.begin(), experts.end(), engine);
    chosen.insert(chosen.end(), experts.begin(), experts.begin() + c.per_token);
  }
  return {{c.tokens, c.per_token}, DType::i32, chosen};
}

/// The tensors of MoeRouting, with memory of their own.
struct MoeRoutingBuffers {
  Buffer probabilities, chosen, weights;
  explicit MoeRoutingBuffers(const MoeCase& c)
      : probabilities({c.tokens, c.experts}, DType::fp32, 9),
        chosen({c.tokens, c.per_token}, DType::i32, -7),
        weights({c.tokens, c.per_token}, DType::fp32, 9) {}
  operator kernels::MoeRouting() const { return {probabilities, chosen, weights}; }  // NOLINT: passed as it is
};

}  // namespace shard8::tests

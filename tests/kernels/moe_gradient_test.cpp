// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/moe.hpp"
#include "tests/kernels/moe_cases.hpp"
#include "tests/support/compare.hpp"

namespace shard8::tests {
namespace {

/// A small layer of experts without the experts' matrices: y[t] = Σ_k w_k·silu(gate)·up, where each pair (token, k) has
/// a row [gate | up] of its own. The loss is Σ dy·y plus the balance.
struct Layer {
  MoeCase sizes{23, 6, 3};
  std::int64_t ffn = 5, seq = 10, first_token = 4, sequences = 3;
  double coefficient = 0.7;
  Buffer token_weights = moe_token_weights(sizes.tokens);
  Buffer logits = Buffer::normal({sizes.tokens, sizes.experts}, DType::fp32, 1);
  Buffer pairs = Buffer::normal({sizes.tokens * sizes.per_token, 2 * ffn}, DType::fp32, 2);  ///< in order of tokens
  Buffer dy = Buffer::normal({sizes.tokens, ffn}, DType::fp32, 3);

  /// The loss in double. `chosen` (T, K) and the counts of the balance are constants.
  double loss(const Doubles& logit, const Doubles& pair, const Doubles& chosen) const {
    const auto [tokens, experts, per_token] = sizes;
    const auto is = token_weights.get(), gradient = dy.get();
    Doubles counts(at(sequences * experts)), sums(at(sequences * experts));
    double total = 0;
    for (std::int64_t t = 0; t < tokens; ++t) {
      if (is[at(t)] == 0) continue;
      const auto b = (first_token + t) / seq;
      double all = 0, own = 0;
      for (std::int64_t e = 0; e < experts; ++e) all += std::exp(logit[at(t * experts + e)]);
      const auto chosen_logit = [&](std::int64_t k) {
        return std::exp(logit[at(t * experts) + static_cast<std::size_t>(chosen[at(t * per_token + k)])]);
      };
      for (std::int64_t k = 0; k < per_token; ++k) own += chosen_logit(k);
      for (std::int64_t e = 0; e < experts; ++e)
        sums[at(b * experts + e)] += std::exp(logit[at(t * experts + e)]) / all;
      for (std::int64_t k = 0; k < per_token; ++k) {
        ++counts[at(b * experts) + static_cast<std::size_t>(chosen[at(t * per_token + k)])];
        for (std::int64_t i = 0; i < ffn; ++i) {
          const auto gate = (t * per_token + k) * 2 * ffn + i;
          const double g = pair[at(gate)], u = pair[at(gate + ffn)];
          total += gradient[at(t * ffn + i)] * chosen_logit(k) / own * g / (1 + std::exp(-g)) * u;
        }
      }
    }
    const double length = static_cast<double>(seq);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      total += coefficient * static_cast<double>(experts) / (static_cast<double>(per_token) * length) * counts[i] *
               sums[i] / length;
    }
    return total;
  }
};

/// ∂loss/∂x by central differences.
template <class F>
Doubles differences(Doubles x, const F& loss) {
  constexpr double kStep = 1e-5;
  Doubles gradient;
  for (auto& value : x) {
    const double start = value;
    value = start + kStep;
    const double above = loss(x);
    value = start - kStep;
    gradient.push_back((above - loss(x)) / (2 * kStep));
    value = start;
  }
  return gradient;
}

TEST(MoeGradient, EqualsCentralDifferences) {
  const Layer layer;
  const auto& c = layer.sizes;
  const Exec exec;
  const MoeRoutingBuffers routing(c);
  kernels::moe_route(exec, routing, layer.logits, true);
  const Buffer counts({c.experts}, DType::i32), position({c.tokens, c.per_token}, DType::i32);
  const Buffer all_source({c.tokens * c.per_token}, DType::i32);
  kernels::moe_sort(exec, counts, position, all_source, routing.chosen, layer.token_weights);
  std::int64_t n = 0;
  for (const double count : counts.get()) n += static_cast<std::int64_t>(count);
  ASSERT_EQ(n, (c.tokens - c.tokens / 5) * c.per_token);
  const Tensor source = all_source.tensor().slice(0, n);
  const Buffer gate_up({n, 2 * layer.ffn}, DType::fp32), weights({n}, DType::fp32), a({n, layer.ffn}, DType::fp32);
  kernels::moe_gather_rows(exec, gate_up, layer.pairs, source, 1);
  kernels::moe_gather_values(exec, weights, routing.weights, source);
  kernels::moe_swiglu_forward(exec, a, gate_up, weights);
  const Buffer y({c.tokens, layer.ffn}, DType::fp32);
  kernels::moe_combine(exec, y, {}, a, position);
  const Buffer sums({2, layer.sequences, c.experts}, DType::fp32);
  kernels::moe_sequence_sums(exec, sums, routing.chosen, routing.probabilities, layer.token_weights, layer.first_token,
                             layer.seq);
  const Total balance;
  kernels::moe_balance(exec, balance, sums, layer.coefficient, c.per_token, layer.seq);

  const auto chosen = routing.chosen.get(), logits = layer.logits.get(), pairs = layer.pairs.get();
  double loss = balance.get();
  const auto result = y.get(), dy = layer.dy.get();
  for (std::size_t i = 0; i < result.size(); ++i) loss += result[i] * dy[i];
  EXPECT_NEAR(loss, layer.loss(logits, pairs, chosen), 1e-5);  // a sum of some 100 terms near 1, in fp32

  const Buffer da({n, layer.ffn}, DType::fp32), dgate_up({n, 2 * layer.ffn}, DType::fp32), of_rows({n}, DType::fp32);
  kernels::moe_gather_rows(exec, da, layer.dy, source, c.per_token);
  kernels::moe_swiglu_backward(exec, dgate_up, of_rows, da, gate_up, weights);
  const Buffer dweights({c.tokens, c.per_token}, DType::fp32), dlogits({c.tokens, c.experts}, DType::fp32);
  kernels::moe_combine_values(exec, dweights, of_rows, position);
  kernels::moe_route_backward(exec, dlogits, dweights, routing,
                              {sums, layer.first_token, layer.seq, static_cast<float>(layer.coefficient)},
                              layer.token_weights);

  const Tolerance tolerance{1e-4, 1e-5};  // fp32, and differences of 1e-5 in double
  EXPECT_TRUE(all_close(
      dlogits.get(), differences(logits, [&](const Doubles& x) { return layer.loss(x, pairs, chosen); }), tolerance));
  const auto of_pairs = differences(pairs, [&](const Doubles& x) { return layer.loss(logits, x, chosen); });
  const auto got = dgate_up.get(), place = position.get();
  Doubles sorted(of_pairs.size());  // rows of padding stay 0
  for (std::size_t p = 0; p < place.size(); ++p) {
    for (std::size_t i = 0; i < at(2 * layer.ffn) && place[p] >= 0; ++i) {
      sorted[p * at(2 * layer.ffn) + i] = got[static_cast<std::size_t>(place[p]) * at(2 * layer.ffn) + i];
    }
  }
  EXPECT_TRUE(all_close(sorted, of_pairs, tolerance));
}

}  // namespace
}  // namespace shard8::tests

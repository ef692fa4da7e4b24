// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/fast_math.hpp"
#include "kernels/kokkos/moe_common.hpp"
#include "kernels/moe.hpp"

namespace shard8::kernels {
namespace {

/// A key for each logit of a token, such that larger keys are chosen first: the larger logit, then the lower expert.
/// Keys differ from each other. A NaN has the smallest key.
KOKKOS_FORCEINLINE_FUNCTION std::uint64_t key_of(float logit, std::int64_t expert) {
  constexpr std::uint32_t kSign = 0x80000000u;
  const auto bits = std::bit_cast<std::uint32_t>(logit == 0.0f ? 0.0f : logit);
  const std::uint32_t ordered = (bits & kSign) != 0 ? ~bits : bits | kSign;
  const std::uint64_t high = logit == logit ? ordered : 0;
  return high << 32 | (0xffffffffu - static_cast<std::uint32_t>(expert));
}
KOKKOS_FORCEINLINE_FUNCTION std::int32_t expert_of(std::uint64_t key) {
  return static_cast<std::int32_t>(0xffffffffu - static_cast<std::uint32_t>(key & 0xffffffffu));
}

/// Routes one token.
struct Route {
  const float* logits;
  float *probabilities, *weights;
  std::int32_t* chosen;
  std::int64_t experts, per_token;
  bool choose;

  template <class AnyTeam>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyTeam& team, std::int64_t token) const {
    const float* const in = logits + token * experts;
    std::int32_t* const pick = chosen + token * per_token;
    softmax(team, probabilities + token * experts, experts, [=](std::int64_t e) { return in[e]; });
    if (choose) {
      std::uint64_t above = ~std::uint64_t{0};
      for (std::int64_t k = 0; k < per_token; ++k) {
        above = warp_row_largest(team, experts, [=](std::int64_t e) {
          const std::uint64_t key = key_of(in[e], e);
          return key < above ? key : 0;
        });
        once(team, [=] { pick[k] = expert_of(above); });
      }
      row_barrier(team);
    }
    softmax(team, weights + token * per_token, per_token, [=](std::int64_t k) { return in[pick[k]]; });
  }

 private:
  template <class AnyTeam, class F>
  KOKKOS_INLINE_FUNCTION static void softmax(const AnyTeam& team, float* out, std::int64_t n, const F& logit) {
    const float largest = warp_row_max(team, n, logit);
    row_for(team, n, [=](std::int64_t i) { out[i] = polynomial_exp(logit(i) - largest); });
    const float sum = warp_row_sum(team, n, [=](std::int64_t i) { return out[i]; });
    row_for(team, n, [=](std::int64_t i) { out[i] = out[i] / sum; });
  }
};

/// The gradient of one token's logits.
template <class T>
struct RouteBackward {
  T* dlogits;
  const float *dweights, *probabilities, *weights, *token_weights;
  const std::int32_t* chosen;
  std::int64_t experts, per_token;
  const float* counts;  ///< (B, E) tokens that chose e, or null: no balance
  std::int64_t first_token, seq;
  float scale;  ///< dp_e = scale · counts

  template <class AnyTeam>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyTeam& team, std::int64_t token) const {
    T* const out = dlogits + token * experts;
    if (token_weights[token] == 0.0f) {
      row_for(team, experts, [=](std::int64_t e) { out[e] = static_cast<T>(0.0f); });
      return;
    }
    const float *const p = probabilities + token * experts, *const w = weights + token * per_token;
    const float* const dw = dweights + token * per_token;
    const std::int32_t* const pick = chosen + token * per_token;
    const float* const count = counts == nullptr ? nullptr : counts + (first_token + token) / seq * experts;
    const float factor = scale;
    const float inner = warp_row_sum(team, per_token, [=](std::int64_t k) { return w[k] * dw[k]; });
    const float balance = count == nullptr
                              ? 0.0f
                              : warp_row_sum(team, experts, [=](std::int64_t e) { return p[e] * (factor * count[e]); });
    const auto of_balance = [=](std::int64_t e) {
      return count == nullptr ? 0.0f : p[e] * (factor * count[e] - balance);
    };
    row_for(team, experts, [=](std::int64_t e) { out[e] = static_cast<T>(of_balance(e)); });
    row_barrier(team);
    row_for(team, per_token, [=](std::int64_t k) {
      const std::int32_t e = pick[k];
      out[e] = static_cast<T>(of_balance(e) + w[k] * (dw[k] - inner));
    });
  }
};

/// Throws Error(failed) unless all tensors of `routing` are of `tokens` tokens and `experts` experts, with K experts a
/// token, and K is at least 1 and at most kMostExpertsPerToken and `experts`.
void require_routing(const char* kernel, const MoeRouting& routing, std::int64_t tokens, std::int64_t experts) {
  const auto per_token = routing.chosen.cols();
  SHARD8_REQUIRE(per_token >= 1 && per_token <= kMostExpertsPerToken && per_token <= experts,
                 "{}: {} experts of {} per token; allowed are 1 to {}, and no more than there are", kernel, per_token,
                 experts, kMostExpertsPerToken);
  require_count(kernel, "probabilities", routing.probabilities, tokens * experts);
  require_count(kernel, "chosen", routing.chosen, tokens * per_token);
  require_count(kernel, "weights", routing.weights, tokens * per_token);
}

}  // namespace

void moe_route(const Exec& exec, const MoeRouting& routing, const tensor::Tensor& logits, bool choose) {
  constexpr auto kName = "moe_route";
  const auto tokens = logits.rows(), experts = logits.cols();
  require_routing(kName, routing, tokens, experts);
  const Route route{logits.as<float>(),
                    routing.probabilities.as<float>(),
                    routing.weights.as<float>(),
                    routing.chosen.as<std::int32_t>(),
                    experts,
                    routing.chosen.cols(),
                    choose};
  for_warp_rows(exec, "shard8::kernels::moe_route", tokens, route);
}

void moe_route_backward(const Exec& exec, const tensor::Tensor& dlogits, const tensor::Tensor& dweights,
                        const MoeRouting& routing, const MoeBalance& balance, const tensor::Tensor& token_weights) {
  constexpr auto kName = "moe_route_backward";
  const auto tokens = dlogits.rows(), experts = dlogits.cols(), per_token = routing.chosen.cols();
  require_routing(kName, routing, tokens, experts);
  require_count(kName, "dweights", dweights, tokens * per_token);
  require_count(kName, "token_weights", token_weights, tokens);
  const float* counts = nullptr;
  float scale = 0;
  if (!balance.sums.empty()) {
    const auto& sums = balance.sums;
    SHARD8_REQUIRE(sums.shape.rank() == 3 && sums.shape[0] == 2 && sums.shape[2] == experts,
                   "{}: sums is {}, (2, sequences, {}) needed", kName, tensor::to_string(sums.shape), experts);
    SHARD8_REQUIRE(
        balance.seq >= 1 && balance.first_token >= 0 && balance.first_token + tokens <= sums.shape[1] * balance.seq,
        "{}: tokens {} to {} of {} sequences of {}", kName, balance.first_token, balance.first_token + tokens,
        sums.shape[1], balance.seq);
    counts = sums.as<float>();
    const auto seq = static_cast<double>(balance.seq);
    scale = static_cast<float>(static_cast<double>(balance.coefficient) * static_cast<double>(experts) /
                               (static_cast<double>(per_token) * seq * seq));
  }
  dispatch_real(dlogits.dtype, kName, [&]<class T>(std::type_identity<T>) {
    const RouteBackward<T> backward{dlogits.as<T>(),
                                    dweights.as<float>(),
                                    routing.probabilities.as<float>(),
                                    routing.weights.as<float>(),
                                    token_weights.as<float>(),
                                    routing.chosen.as<std::int32_t>(),
                                    experts,
                                    per_token,
                                    counts,
                                    balance.first_token,
                                    balance.seq,
                                    scale};
    for_warp_rows(exec, "shard8::kernels::moe_route_backward", tokens, backward);
  });
}

}  // namespace shard8::kernels

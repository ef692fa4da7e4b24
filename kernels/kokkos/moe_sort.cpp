// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/moe.hpp"

namespace shard8::kernels {
namespace {

/// The pairs (token, k), numbered token·K + k, and where their order is written.
struct Pairs {
  std::int32_t *counts, *position, *source;
  const std::int32_t* chosen;
  const float* token_weights;
  std::uint32_t count, per_token;
  std::int64_t experts;

  /// The expert of a pair; −1 if the token is padding.
  KOKKOS_FORCEINLINE_FUNCTION std::int32_t expert(std::uint32_t pair) const {
    return token_weights[pair / per_token] == 0.0f ? -1 : chosen[pair];
  }
};

/// A counting sort by one host thread. Its work is proportional to the pairs plus the experts. counts has first the
/// counts, then where each expert's pairs begin, then where they end, then the counts again.
void sort_by_one(const Exec& exec, const Pairs& pairs) {
  Kokkos::parallel_for(
      label_of("shard8::kernels::moe_sort"), Range(exec, 0, 1), SHARD8_LAMBDA(std::int64_t) {
        std::int32_t* const counts = pairs.counts;
        for (std::int64_t e = 0; e < pairs.experts; ++e) counts[e] = 0;
        for (std::uint32_t p = 0; p < pairs.count; ++p) {
          if (const auto e = pairs.expert(p); e >= 0) ++counts[e];
        }
        std::int32_t routed = 0;
        for (std::int64_t e = 0; e < pairs.experts; ++e) {
          const std::int32_t count = counts[e];
          counts[e] = routed;
          routed += count;
        }
        for (std::uint32_t p = 0; p < pairs.count; ++p) {
          const auto e = pairs.expert(p);
          pairs.position[p] = e >= 0 ? counts[e]++ : -1;
          if (e >= 0) pairs.source[pairs.position[p]] = static_cast<std::int32_t>(p);
        }
        for (std::int64_t e = pairs.experts - 1; e > 0; --e) counts[e] -= counts[e - 1];
      });
}

/// A team of a device places the pairs of one expert. Each of its warps reads an equal part of all pairs twice: to
/// count the expert's pairs and those of lower experts, and to place the expert's pairs. The team of expert 0 also
/// places the pairs of padding tokens.
struct PlacePairs {
  static constexpr int kThreads = 1024, kWarps = kThreads / 32, kAtOnce = 4;
  using Bounds = Kokkos::LaunchBounds<kThreads, 1>;
  struct Scratch {
    std::int32_t lower[kWarps], own[kWarps];
  };
  static constexpr std::int32_t kNone = std::numeric_limits<std::int32_t>::max();  ///< behind the last pair
  Pairs pairs;

  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t index, Scratch& scratch) const {
    const auto expert = static_cast<std::int32_t>(index);
    const int rank = team.team_rank(), warp = rank / 32, lane = rank % 32;
    std::int32_t lower = 0, own = 0;
    for_pairs(warp, lane, [&](std::uint32_t, std::int32_t e) {
      lower += Kokkos::popcount(warp_ballot(e >= 0 && e < expert));
      own += Kokkos::popcount(warp_ballot(e == expert));
    });
    once_of_warp(lane, [&] {
      scratch.lower[warp] = lower;
      scratch.own[warp] = own;
    });
    team.team_barrier();
    std::int32_t place = 0, total = 0;
    for (int w = 0; w < kWarps; ++w) {
      place += scratch.lower[w] + (w < warp ? scratch.own[w] : 0);
      total += scratch.own[w];
    }
    once(team, [&] { pairs.counts[expert] = total; });
    for_pairs(warp, lane, [&](std::uint32_t pair, std::int32_t e) {
      const std::uint32_t marks = warp_ballot(e == expert), before = marks & ((std::uint32_t{1} << lane) - 1);
      if (e == expert) {
        const std::int32_t at = place + Kokkos::popcount(before);
        pairs.position[pair] = at;
        pairs.source[at] = static_cast<std::int32_t>(pair);
      } else if (e == -1 && expert == 0) {
        pairs.position[pair] = -1;
      }
      place += Kokkos::popcount(marks);
    });
  }

 private:
  /// Calls f(pair, expert) for the warp's pairs, by all its threads at once, in ascending order. A thread without a
  /// pair gets the expert kNone.
  template <class F>
  KOKKOS_INLINE_FUNCTION void for_pairs(int warp, int lane, const F& f) const {
    const std::uint32_t of_warp = (pairs.count + kThreads - 1) / kThreads * 32;
    const std::uint32_t begin = static_cast<std::uint32_t>(warp) * of_warp;
    const std::uint32_t end = begin + of_warp < pairs.count ? begin + of_warp : pairs.count;
    for (std::uint32_t first = begin; first < end; first += 32 * kAtOnce) {
      std::int32_t expert[kAtOnce];
      SHARD8_UNROLL
      for (int u = 0; u < kAtOnce; ++u) {
        const std::uint32_t pair = first + static_cast<std::uint32_t>(32 * u + lane);
        expert[u] = pair < end ? pairs.expert(pair) : kNone;
      }
      SHARD8_UNROLL
      for (int u = 0; u < kAtOnce; ++u) f(first + static_cast<std::uint32_t>(32 * u + lane), expert[u]);
    }
  }
  template <class F>
  KOKKOS_INLINE_FUNCTION static void once_of_warp(int lane, const F& f) {
    if (lane == 0) f();
  }
};

}  // namespace

void moe_sort(const Exec& exec, const tensor::Tensor& counts, const tensor::Tensor& position,
              const tensor::Tensor& source, const tensor::Tensor& chosen, const tensor::Tensor& token_weights) {
  constexpr auto kName = "moe_sort";
  const auto pairs = chosen.count(), tokens = token_weights.count(), per_token = chosen.cols();
  require_count(kName, "chosen", chosen, tokens * per_token);
  require_count(kName, "position", position, pairs);
  require_count(kName, "source", source, pairs);
  SHARD8_REQUIRE(per_token >= 1 && pairs <= std::numeric_limits<std::int32_t>::max(),
                 "{}: {} pairs of {} tokens; allowed are at least one for each token, and 2^31 - 1", kName, pairs,
                 tokens);
  const Pairs of{counts.as<std::int32_t>(),
                 position.as<std::int32_t>(),
                 source.as<std::int32_t>(),
                 chosen.as<std::int32_t>(),
                 token_weights.as<float>(),
                 static_cast<std::uint32_t>(pairs),
                 static_cast<std::uint32_t>(per_token),
                 counts.count()};
  if constexpr (kHostExec) {
    sort_by_one(exec, of);
  } else {
    for_rows_with<PlacePairs::Scratch, PlacePairs::Bounds>(exec, "shard8::kernels::moe_sort", of.experts,
                                                           PlacePairs{of}, PlacePairs::kThreads);
  }
}

}  // namespace shard8::kernels

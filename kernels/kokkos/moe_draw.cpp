// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "base/arithmetic.hpp"
#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/moe.hpp"

namespace shard8::kernels {
namespace {

/// n^−s for n >= 1, or 2^−1000 where n^−s is smaller. Only additions, multiplications and divisions compute it, so that
/// hosts and devices get the same bits.
KOKKOS_INLINE_FUNCTION double inverse_power(std::int64_t n, double s) {
  constexpr double kLn2 = 0.6931471805599453, kSqrt2 = 1.4142135623730951;
  int exponent = 63 - Kokkos::countl_zero(static_cast<std::uint64_t>(n));
  double m = static_cast<double>(n) / static_cast<double>(std::uint64_t{1} << exponent);
  if (m > kSqrt2) {
    m *= 0.5;
    ++exponent;
  }
  // ln m = 2·artanh(z), |z| < 0.172; the terms left out are below 2^−60.
  const double z = (m - 1) / (m + 1), square = z * z;
  double series = 0;
  for (int i = 23; i > 0; i -= 2) series = series * square + 1.0 / i;
  double y = -s * (exponent + 2 * z * series / kLn2);
  y = y < -1000 ? -1000 : y;
  // 2^y = 2^whole·e^r, |r| < 0.347; the terms of e^r left out are below 2^−55.
  const double whole = Kokkos::floor(y + 0.5), r = (y - whole) * kLn2;
  double power = 1;
  for (int i = 14; i > 0; --i) power = power * r / i + 1;
  return power * std::bit_cast<double>(static_cast<std::uint64_t>(static_cast<std::int64_t>(whole) + 1023) << 52);
}

/// The number in the global batch of each row's token.
struct TokenNumbers {
  std::int64_t first_token, seq, first_sequence, sequence_stride;
  KOKKOS_INLINE_FUNCTION std::uint64_t operator()(std::int64_t row) const {
    const std::int64_t token = first_token + row, sequence = first_sequence + token / seq * sequence_stride;
    return static_cast<std::uint64_t>(sequence * seq + token % seq);
  }
};

/// Draws from Zipf's law for a block of tokens. A team has the law in its scratch.
struct DrawZipf {
  static constexpr std::int64_t kTokens = kHostExec ? 1024 : kTeamThreads;  ///< of a team
  struct Scratch {
    std::uint64_t key[kMostDrawnExperts];
    /// tail[r]: the sum of the probabilities of the places from r on, up to a factor.
    double tail[kMostDrawnExperts + 1];
    std::int32_t expert_at[kMostDrawnExperts];
  };
  std::int32_t* chosen;
  TokenNumbers number;
  std::int64_t tokens, experts, per_token, layer;
  std::uint64_t key;
  double skew;

  template <class AnyTeam>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyTeam& team, std::int64_t block, Scratch& scratch) const {
    prepare(team, scratch);
    const std::int64_t first = block * kTokens, rest = tokens - first;
    row_for(team, rest < kTokens ? rest : kTokens, [=, *this, law = &scratch](std::int64_t i) {
      draw(chosen + (first + i) * per_token, base::mix64(key ^ number(first + i)), *law);
    });
  }

 private:
  template <class AnyTeam>
  KOKKOS_INLINE_FUNCTION void prepare(const AnyTeam& team, Scratch& scratch) const {
    Scratch* const law = &scratch;
    const std::uint64_t of_layer = base::mix64(static_cast<std::uint64_t>(layer));
    const std::int64_t n = experts;
    const double s = skew;
    row_for(team, n, [=](std::int64_t e) {
      law->key[e] = base::mix64(of_layer ^ static_cast<std::uint64_t>(e));
      law->tail[e] = inverse_power(e + 1, s);
    });
    row_barrier(team);
    // The permutation sorts experts by their keys, which differ from each other.
    row_for(team, n, [=](std::int64_t e) {
      std::int64_t place = 0;
      for (std::int64_t other = 0; other < n; ++other) place += law->key[other] < law->key[e] ? 1 : 0;
      law->expert_at[place] = static_cast<std::int32_t>(e);
    });
    once(team, [=] {
      law->tail[n] = 0;
      for (std::int64_t r = n - 1; r >= 0; --r) law->tail[r] += law->tail[r + 1];
    });
    row_barrier(team);
  }

  /// Draws one token's experts. The places already taken cut the others into runs. Sums over runs are differences of
  /// tails; they are accurate, because a run begins with its largest probability.
  KOKKOS_INLINE_FUNCTION void draw(std::int32_t* pick, std::uint64_t state, const Scratch& law) const {
    std::int64_t taken[kMostExpertsPerToken + 1];  // ascending, then the end
    taken[0] = experts;
    for (std::int64_t k = 0; k < per_token; ++k) {
      double total = 0;
      for (std::int64_t run = 0; run <= k; ++run) total += law.tail[begin_of(taken, run)] - law.tail[taken[run]];
      const std::uint64_t random = base::mix64(state + static_cast<std::uint64_t>(k));
      double rest = static_cast<double>(random >> 11) * 0x1p-53 * total;
      std::int64_t run = 0, last = 0;
      for (; run <= k; ++run) {
        const std::int64_t begin = begin_of(taken, run);
        if (begin == taken[run]) continue;
        const double sum = law.tail[begin] - law.tail[taken[run]];
        last = run;
        if (rest < sum) break;
        rest -= sum;
      }
      // If roundings have left a rest, the last run that is not empty has the place.
      const std::int64_t place = find(law, begin_of(taken, last), taken[last], rest);
      for (std::int64_t i = k; i >= last; --i) taken[i + 1] = taken[i];
      taken[last] = place;
      pick[k] = law.expert_at[place];
    }
  }
  KOKKOS_INLINE_FUNCTION static std::int64_t begin_of(const std::int64_t* taken, std::int64_t run) {
    return run == 0 ? 0 : taken[run - 1] + 1;
  }
  /// The first place of [begin, end) up to which the probabilities of the run add to more than `rest`; else the last.
  KOKKOS_INLINE_FUNCTION static std::int64_t find(const Scratch& law, std::int64_t begin, std::int64_t end,
                                                  double rest) {
    const double tail = law.tail[begin];
    std::int64_t low = begin, high = end - 1;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (tail - law.tail[middle + 1] > rest) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }
};

}  // namespace

void moe_draw(const Exec& exec, const tensor::Tensor& chosen, const MoeDraw& draw) {
  constexpr auto kName = "moe_draw";
  const auto tokens = chosen.rows(), per_token = chosen.cols(), experts = draw.experts;
  SHARD8_REQUIRE(
      per_token >= 1 && per_token <= kMostExpertsPerToken && per_token <= experts && experts <= kMostDrawnExperts,
      "{}: {} experts of {} per token; allowed are 1 to {}, and up to {} in all", kName, per_token, experts,
      kMostExpertsPerToken, kMostDrawnExperts);
  SHARD8_REQUIRE(draw.seq >= 1 && draw.skew >= 0, "{}: sequences of {}, skew {}; at least 1 and 0 needed", kName,
                 draw.seq, draw.skew);
  auto* const to = chosen.as<std::int32_t>();
  const TokenNumbers number{draw.first_token, draw.seq, draw.first_sequence, draw.sequence_stride};
  std::uint64_t key = base::mix64(draw.seed);
  for (const std::int64_t part : {draw.step, draw.layer}) key = base::mix64(key ^ static_cast<std::uint64_t>(part));
  if (!draw.balanced) {
    const DrawZipf zipf{to, number, tokens, experts, per_token, draw.layer, key, draw.skew};
    for_rows_with<DrawZipf::Scratch>(exec, "shard8::kernels::moe_draw",
                                     (tokens + DrawZipf::kTokens - 1) / DrawZipf::kTokens, zipf);
    return;
  }
  const auto all = static_cast<std::uint64_t>(experts), step = static_cast<std::uint64_t>(per_token);
  const std::uint64_t offset = key % all;
  for_each(
      exec, "shard8::kernels::moe_draw", tokens, SHARD8_LAMBDA(std::int64_t t) {
        const std::uint64_t first = number(t) * step + offset;
        for (std::int64_t k = 0; k < per_token; ++k) {
          to[t * per_token + k] = static_cast<std::int32_t>((first + static_cast<std::uint64_t>(k)) % all);
        }
      });
}

}  // namespace shard8::kernels

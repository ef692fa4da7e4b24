// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/moe.hpp"

namespace shard8::kernels {
namespace {

/// Copies rows of elements of the size of T.
template <class T>
void gather(const Exec& exec, const tensor::Tensor& y, const tensor::Tensor& x, const std::int32_t* source,
            std::int32_t per_token) {
  constexpr int kN = kPack<T>;
  T* const to = reinterpret_cast<T*>(y.data);
  const T* const from = reinterpret_cast<const T*>(x.data);
  const std::int64_t hidden = y.cols();
  const bool fits = packs_fit<kN>(hidden, to, from);
  for_rows(
      exec, "shard8::kernels::moe_gather_rows", y.rows(), SHARD8_LAMBDA(const Team& team, std::int64_t row) {
        const std::int32_t number = source[row];
        T* const out = to + row * hidden;
        if (number < 0) {
          row_packs<kN>(team, hidden, fits,
                        [=](auto w, std::int64_t i) { w.store_lanes(out, i, decltype(w.load(out, i)){}); });
          return;
        }
        row_packs<kN>(team, hidden, fits, [=, in = from + number / per_token * hidden](auto w, std::int64_t i) {
          w.store_lanes(out, i, w.load(in, i));
        });
      });
}

/// Adds the rows of one token.
template <class T>
struct Combine {
  T* y;
  const T *addend, *rows;  ///< addend may be null
  const std::int32_t* position;
  std::int64_t hidden, per_token;
  bool fits;

  void operator()(const HostTeam& team, std::int64_t token) const {
    constexpr std::int64_t kColumns = 256;  // the sums of so many columns stay in the thread's cache
    const std::int32_t* const place = position + token * per_token;
    for (std::int64_t first = 0; first < hidden; first += kColumns) {
      const std::int64_t columns = first + kColumns < hidden ? kColumns : hidden - first;
      float memory[kColumns];
      float* const sums = memory;
      row_for(team, columns, [=](std::int64_t i) { sums[i] = 0; });
      for (std::int64_t k = 0; k < per_token; ++k) {
        if (place[k] < 0) continue;
        const T* const in = rows + place[k] * hidden + first;
        row_for(team, columns, [=](std::int64_t i) { sums[i] += static_cast<float>(in[i]); });
      }
      T* const out = y + token * hidden + first;
      if (addend == nullptr) {
        row_for(team, columns, [=](std::int64_t i) { out[i] = static_cast<T>(sums[i]); });
      } else {
        const T* const more = addend + token * hidden + first;
        row_for(team, columns, [=](std::int64_t i) { out[i] = static_cast<T>(static_cast<float>(more[i]) + sums[i]); });
      }
    }
  }
  template <class AnyMember>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyMember& team, std::int64_t token) const {
    constexpr int kN = kPack<T>, kAtOnce = 4;
    const std::int32_t* const place = position + token * per_token;
    row_packs<kN, 1>(team, hidden, fits, [=, *this](auto w, std::int64_t i) {
      auto sum = w.each([](int) { return 0.0f; });
      for (std::int64_t first = 0; first < per_token; first += kAtOnce) {
        decltype(w.load(rows, i)) in[kAtOnce];
        bool is[kAtOnce];
        SHARD8_UNROLL
        for (int u = 0; u < kAtOnce; ++u) {
          const std::int64_t at = first + u < per_token ? place[first + u] : -1;
          in[u] = {};
          is[u] = at >= 0;
          if (is[u]) in[u] = w.load(rows + at * hidden, i);
        }
        SHARD8_UNROLL
        for (int u = 0; u < kAtOnce; ++u) {
          if (is[u]) sum = w.each([&](int j) { return sum[j] + in[u][j]; });
        }
      }
      if (addend != nullptr) {
        const auto more = w.load(addend + token * hidden, i);
        sum = w.each([&](int j) { return more[j] + sum[j]; });
      }
      w.store(y + token * hidden, i, sum);
    });
  }
};

}  // namespace

void moe_gather_rows(const Exec& exec, const tensor::Tensor& y, const tensor::Tensor& x, const tensor::Tensor& source,
                     std::int64_t per_token) {
  constexpr auto kName = "moe_gather_rows";
  require_count(kName, "source", source, y.rows());
  SHARD8_REQUIRE(y.dtype == x.dtype && y.cols() == x.cols(), "{}: y has rows of {} {}, x of {} {}; both must be equal",
                 kName, y.cols(), tensor::name_of(y.dtype), x.cols(), tensor::name_of(x.dtype));
  SHARD8_REQUIRE(per_token >= 1 && per_token <= kMostExpertsPerToken, "{}: {} experts per token; allowed are 1 to {}",
                 kName, per_token, kMostExpertsPerToken);
  const auto* from = source.as<std::int32_t>();
  const auto divisor = static_cast<std::int32_t>(per_token);
  switch (tensor::size_of(y.dtype)) {
    case 4:
      return gather<std::uint32_t>(exec, y, x, from, divisor);
    case 2:
      return gather<std::uint16_t>(exec, y, x, from, divisor);
    default:
      return gather<std::uint8_t>(exec, y, x, from, divisor);
  }
}

void moe_gather_values(const Exec& exec, const tensor::Tensor& y, const tensor::Tensor& x,
                       const tensor::Tensor& index) {
  require_count("moe_gather_values", "index", index, y.count());
  auto* to = y.as<float>();
  const auto* from = x.as<float>();
  const auto* number = index.as<std::int32_t>();
  for_each(
      exec, "shard8::kernels::moe_gather_values", y.count(),
      SHARD8_LAMBDA(std::int64_t i) { to[i] = number[i] < 0 ? 0.0f : from[number[i]]; });
}

void moe_combine(const Exec& exec, const tensor::Tensor& y, const tensor::Tensor& addend, const tensor::Tensor& rows,
                 const tensor::Tensor& position) {
  constexpr auto kName = "moe_combine";
  const auto tokens = y.rows(), hidden = y.cols(), per_token = position.cols();
  require_count(kName, "position", position, tokens * per_token);
  SHARD8_REQUIRE(rows.cols() == hidden, "{}: rows of {}, {} needed", kName, rows.cols(), hidden);
  if (!addend.empty()) require_count(kName, "addend", addend, tokens * hidden);
  dispatch_real(y.dtype, kName, [&]<class T>(std::type_identity<T>) {
    T* const out = y.as<T>();
    const T* const more = addend.empty() ? nullptr : addend.as<T>();
    const T* const in = rows.as<T>();
    const bool fits = packs_fit<kPack<T>>(hidden, out, more, in);
    const Combine<T> combine{out, more, in, position.as<std::int32_t>(), hidden, per_token, fits};
    for_rows(exec, "shard8::kernels::moe_combine", tokens, combine);
  });
}

void moe_combine_values(const Exec& exec, const tensor::Tensor& y, const tensor::Tensor& values,
                        const tensor::Tensor& position) {
  require_count("moe_combine_values", "position", position, y.count());
  auto* to = y.as<float>();
  const auto* from = values.as<float>();
  const auto* place = position.as<std::int32_t>();
  for_each(
      exec, "shard8::kernels::moe_combine_values", y.count(), SHARD8_LAMBDA(std::int64_t i) {
        if (place[i] >= 0) {
          to[i] = from[place[i]];
        } else {
          to[i] = 0;
        }
      });
}

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

/// A counting sort by one host thread. The sort's work is proportional to the pairs plus the experts. counts has first
/// the counts, then where each expert's pairs begin, then where they end, then the counts again.
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

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <span>

#include "kernels/adamw.hpp"
#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/adamw_shard.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/kokkos/write_outputs.hpp"
#include "tensor/float8.hpp"

namespace shard8::kernels {

namespace {

using tensor::DType;

constexpr auto kName = "adamw_step";
constexpr auto kLabel = "shard8::kernels::adamw_step";

/// About how many elements a team updates on a device.
constexpr std::int64_t kStretch = 8192;

/// On a device: one kernel updates the stretches of several shards. A stretch is kStretch elements or, with kSquares,
/// as many segments of squares as the warps of a team take.
template <class E, class Master, class Moment, bool kSquares>
struct Stretches {
  Factors factors;
  std::int64_t ends[kAdamwAtOnce];  ///< for each shard: how many stretches this shard and all shards before it have
  Shard<E, Master, Moment> each[kAdamwAtOnce];

  template <class AnyTeam>
  KOKKOS_INLINE_FUNCTION void operator()(const AnyTeam& team, std::int64_t stretch) const {
    std::size_t which = 0;
    std::int64_t before = 0;
    SHARD8_UNROLL
    for (std::size_t k = 0; k + 1 < kAdamwAtOnce; ++k) {
      if (stretch >= ends[k]) {
        which = k + 1;
        before = ends[k];
      }
    }
    const auto& shard = each[which];
    if constexpr (E::kCast) {
      if (shard.out.scale == nullptr) return run(team, OutputWriter<Nothing>{}, shard, stretch - before);
    }
    run(team, shard.out, shard, stretch - before);
  }

  /// At least one: a shard without elements also has a scale.
  static std::int64_t stretches_of(const Shard<E, Master, Moment>& shard) {
    if (shard.count == 0) return 1;
    const std::int64_t of_team = kSquares ? kTeamThreads / kWarp * shard.segments.of_warp(kSquareSegment) : kStretch;
    return ((kSquares ? shard.segments.count() : shard.count) + of_team - 1) / of_team;
  }

  /// Updates a stretch of a shard, and sums the squares of its gradient.
  template <class AnyTeam, class Output>
  KOKKOS_INLINE_FUNCTION void run(const AnyTeam& team, const OutputWriter<Output>& out,
                                  const Shard<E, Master, Moment>& shard, std::int64_t stretch) const {
    const RowWriter<Output> writer = out.open(team, stretch);
    const Step<Master, Moment> step = shard.step;  // a copy in registers: otherwise each use would load it
    CastStats stats;
    if constexpr (kSquares) {
      stats = run_segments(team, writer, step, shard, stretch);
    } else {
      const std::int64_t first = stretch * kStretch, rest = shard.count - first;
      row_packs<kPack<float>, 1>(team, rest < kStretch ? rest : kStretch, shard.fits, [&](auto w, std::int64_t i) {
        stats += step.put(factors, writer, w, first + i, w.load(step.gradient, first + i));
      });
    }
    if constexpr (Output::kStats) writer.totals.add(team, stats);
  }

  /// Updates the segments of a stretch, each by a warp or, if they are short, by a lane.
  template <class AnyTeam, class Output>
  KOKKOS_INLINE_FUNCTION CastStats run_segments([[maybe_unused]] const AnyTeam& team,
                                                [[maybe_unused]] const RowWriter<Output>& writer,
                                                [[maybe_unused]] const Step<Master, Moment>& step,
                                                [[maybe_unused]] const Shard<E, Master, Moment>& shard,
                                                [[maybe_unused]] std::int64_t stretch) const {
    CastStats stats;
#if defined(__CUDA_ARCH__)
    const SquareSegments& segments = shard.segments;
    const std::int64_t count = shard.count == 0 ? 0 : segments.count();
    const int lane = team.team_rank() % kWarp, warp = team.team_rank() / kWarp, warps = team.team_size() / kWarp;
    const int of_warp = count == 0 ? 1 : segments.of_warp(kSquareSegment);
    const std::int64_t begin = (stretch * warps + warp) * of_warp;
    if (segments.by_lanes()) {
      const std::int64_t s = begin + lane;
      if (s >= count) return stats;
      const std::int64_t first = segments.first(s);
      for (std::int64_t i = first; i < first + segments.cols; ++i)
        stats += step.put(factors, writer, Single{}, i, Single{}.load(step.gradient, i));
      if (shard.squares != nullptr) shard.squares[s] = segment_squares(step.gradient + first, segments.cols);
      return stats;
    }
    const bool fits = shard.fits && segments.cols % kPack<float> == 0;
    for (std::int64_t s = begin; s < begin + of_warp && s < count; ++s) {
      const std::int64_t first = segments.first(s);
      double squares = 0;
      warp_packs(lane, segments.length(s), fits, [&](auto w, std::int64_t i) {
        const auto g = w.load(step.gradient, first + i);
        SHARD8_UNROLL
        for (int j = 0; j < decltype(w)::kCount; ++j) squares += static_cast<double>(g[j]) * static_cast<double>(g[j]);
        stats += step.put(factors, writer, w, first + i, g);
      });
      squares = warp_sum(squares);
      if (lane == 0 && shard.squares != nullptr) shard.squares[s] = squares;
    }
#endif
    return stats;
  }
};

/// Runs updates whose weights are written as E or not at all; on hosts a single one.
template <class E, class Master, class Moment>
void update(const Exec& exec, std::span<const AdamwUpdate> updates, const AdamwScalars& scalars) {
  const Factors factors(scalars);
  if constexpr (kHostExec) {
    const auto shard = Shard<E, Master, Moment>::of(updates.front(), scalars);
    const auto body = [=, step = shard.step](const RowWriter<E>& writer, const auto& w, std::int64_t i) {
      return step.put(factors, writer, w, i, w.load(step.gradient, i));
    };
    write_each<kPack<float>, 1>(exec, kLabel, shard.out, shard.count, shard.fits, body);
  } else {
    const auto launch = [&]<bool kSquares>(std::bool_constant<kSquares>) {
      Stretches<E, Master, Moment, kSquares> all{factors, {}, {}};
      std::int64_t stretches = 0;
      for (std::size_t k = 0; k < kAdamwAtOnce; ++k) {
        if (k < updates.size()) {
          all.each[k] = Shard<E, Master, Moment>::of(updates[k], scalars);
          stretches += all.stretches_of(all.each[k]);
        }
        all.ends[k] = stretches;
      }
      for_rows<Kokkos::LaunchBounds<kTeamThreads, 4>>(exec, kLabel, stretches, all);
    };
    const bool squares =
        std::any_of(updates.begin(), updates.end(), [](const AdamwUpdate& u) { return !u.tensors.squares.empty(); });
    squares ? launch(std::true_type{}) : launch(std::false_type{});
  }
}

/// The form in which an update writes its weights: the 8-bit format of their cast, i32 for an amax alone, fp32 for
/// nothing.
DType format_of(const Outputs& weights) {
  if (has_cast(weights)) return weights.quantized.data.dtype;
  return weights.amax.empty() ? DType::fp32 : DType::i32;
}

/// Calls f(std::type_identity<E>{}) with the output types of a result of format_of().
template <class F>
void dispatch_format(DType format, const F& f) {
  if (format == DType::fp32) return f(std::type_identity<Nothing>{});
  if (format == DType::i32) return f(std::type_identity<OutputTypes<float, void, false, true>>{});
  dispatch_float8(format, kName,
                  [&]<class Q>(std::type_identity<Q>) { f(std::type_identity<OutputTypes<float, Q, false, true>>{}); });
}

/// Calls f(std::type_identity<Master>{}) with the type that loads and stores the master and computes its weights.
template <class F>
void dispatch_master(DType master, bool through_bf16, const F& f) {
  if (master == DType::bf16) return f(std::type_identity<SplitMaster>{});
  if (through_bf16) return f(std::type_identity<WholeMaster<true>>{});
  f(std::type_identity<WholeMaster<false>>{});
}

/// How many of the updates, from the first on, one kernel can run, and the format in which they write weights.
struct Together {
  std::size_t count = 1;
  DType format;

  explicit Together(std::span<const AdamwUpdate> updates) : format(format_of(updates.front().weights)) {
    const AdamwTensors& one = updates.front().tensors;
    const std::size_t most = kHostExec ? 1 : std::min(updates.size(), kAdamwAtOnce);
    for (; count < most; ++count) {
      const AdamwTensors& t = updates[count].tensors;
      const DType next = format_of(updates[count].weights);
      if (t.master.dtype != one.master.dtype || t.m.dtype != one.m.dtype) return;
      if (next != format && next != DType::fp32 && format != DType::fp32) return;
      if (format == DType::fp32) format = next;
    }
  }
};

void require_update(const AdamwUpdate& update) {
  const AdamwTensors& t = update.tensors;
  const auto count = t.master.count();
  require_count(kName, "remainder", t.remainder, t.master.dtype == DType::bf16 ? count : 0);
  require_count(kName, "m", t.m, count);
  require_count(kName, "v", t.v, count);
  require_count(kName, "g", t.g, count);
  if (!t.squares.empty()) {
    require_count(kName, "squares", t.squares,
                  square_segments(t.g.rows(), t.g.cols()) * static_cast<std::int64_t>(sizeof(double)));
  }
  Outputs asked = update.weights;
  asked.plain = {};
  if (!asks_for_nothing(asked)) require_outputs(kName, "weights", asked, count);
}

}  // namespace

void adamw_step_each(const Exec& exec, std::span<const AdamwUpdate> updates, const AdamwScalars& scalars,
                     bool through_bf16) {
  for (const AdamwUpdate& update : updates) {
    require_update(update);
    const AdamwTensors& t = update.tensors;
    if (!kHostExec || t.squares.empty()) continue;
    square_parts(exec, t.squares, t.g);  // a separate kernel: with the sums in it the step would not become vector code
  }
  for (std::span<const AdamwUpdate> rest = updates; !rest.empty();) {
    const Together together(rest);
    const AdamwTensors& one = rest.front().tensors;
    const bool rounds =
        through_bf16 && together.format != DType::fp32;  // without weights to write both ways are the same
    dispatch_real(one.m.dtype, kName, [&]<class Moment>(std::type_identity<Moment>) {
      dispatch_master(one.master.dtype, rounds, [&]<class Master>(std::type_identity<Master>) {
        dispatch_format(together.format, [&]<class E>(std::type_identity<E>) {
          update<E, Master, Moment>(exec, rest.first(together.count), scalars);
        });
      });
    });
    rest = rest.subspan(together.count);
  }
  for (const AdamwUpdate& update : updates) {
    const Outputs& weights = update.weights;
    if (!weights.transposed.empty()) transpose_cast(exec, kName, weights.transposed, weights.quantized.data);
  }
}

void adamw_step(const Exec& exec, const AdamwTensors& tensors, const AdamwScalars& scalars, const Outputs& weights,
                bool through_bf16) {
  const AdamwUpdate one{tensors, weights};
  adamw_step_each(exec, {&one, 1}, scalars, through_bf16);
}

void split_master(const Exec& exec, const tensor::Tensor& weight, const tensor::Tensor& remainder,
                  const tensor::Tensor& master) {
  const auto count = master.count();
  require_count("split_master", "weight", weight, count);
  require_count("split_master", "remainder", remainder, count);
  auto* high = weight.as<tensor::BFloat16>();
  auto* low = remainder.as<std::int16_t>();
  const float* whole = master.as<float>();
  constexpr int kN = kPack<float>;
  const bool fits = packs_fit<kN>(kN, high, low, whole);
  for_spans(
      exec, "shard8::kernels::split_master", count,
      SHARD8_LAMBDA(const Team& team, std::int64_t first, std::int64_t n) {
        row_packs<kN>(team, n, fits, [=](auto w, std::int64_t i) {
          const auto in = w.load(whole, first + i);
          w.fill(high, first + i, [&](int j) { return tensor::split_halves(in[j]).weight; });
          w.fill(low, first + i, [&](int j) { return tensor::split_halves(in[j]).remainder; });
        });
      });
}

void join_master(const Exec& exec, const tensor::Tensor& master, const tensor::Tensor& weight,
                 const tensor::Tensor& remainder) {
  const auto count = master.count();
  require_count("join_master", "weight", weight, count);
  require_count("join_master", "remainder", remainder, count);
  float* whole = master.as<float>();
  const auto* high = weight.as<tensor::BFloat16>();
  const auto* low = remainder.as<std::int16_t>();
  constexpr int kN = kPack<float>;
  const bool fits = packs_fit<kN>(kN, whole, high, low);
  for_spans(
      exec, "shard8::kernels::join_master", count, SHARD8_LAMBDA(const Team& team, std::int64_t first, std::int64_t n) {
        row_packs<kN>(team, n, fits, [=](auto w, std::int64_t i) {
          const auto upper = w.load(high, first + i);
          const auto lower = w.load(low, first + i);
          w.store(whole, first + i, w.each([&](int j) { return tensor::join_halves(upper.raw(j), lower.raw(j)); }));
        });
      });
}

}  // namespace shard8::kernels

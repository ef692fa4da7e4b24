// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/cast.hpp"

namespace shard8::kernels {
namespace {

template <class Q, class Source>
void quantize_flat(const Exec& exec, Q* out, float* scale_inv, const CastTotals& totals, const Source& x,
                   const float* scale, std::int64_t count) {
  constexpr int kN = kPack<typename Source::Type>, kPacks = 32 / kN, kTeams = kN == 8 ? 4 : 3;
  const bool fits = packs_fit<kN>(kN, x.x, out);
  for_stretches<Kokkos::LaunchBounds<kTeamThreads, kTeams>, 16384>(
      exec, "shard8::kernels::quantize", count, SHARD8_LAMBDA(const Team& team, std::int64_t first, std::int64_t n) {
        const float factor = *scale;
        const CastTotals left = totals.seen(team);
        const auto in = x.from(first);
        Q* const to = out + first;
        const auto stats = row_stats<kN, kPacks>(
            team, n, fits, [=](auto w, std::int64_t i) { return cast_lanes(w, to, i, in.load(w, i), factor); });
        left.add(team, stats);
        once(team, [=] {
          if (first == 0) *scale_inv = 1.0f / factor;
        });
      });
}

}  // namespace

void quantize(const Exec& exec, const tensor::Operand& out, const tensor::Tensor& amax, const tensor::Tensor& x,
              const tensor::Tensor& scale, const CastOptions& options) {
  const auto totals = require_per_tensor("quantize", out, amax, x, scale, options);
  dispatch_float8(out.data.dtype, "quantize", [&]<class Q>(std::type_identity<Q>) {
    dispatch_source(x, options.through_bf16, "quantize", [&](const auto& source) {
      quantize_flat(exec, out.data.as<Q>(), out.scale_inv.as<float>(), totals, source, scale.as<float>(), x.count());
    });
  });
}

}  // namespace shard8::kernels

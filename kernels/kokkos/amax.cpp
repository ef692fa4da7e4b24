// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/cast.hpp"

namespace shard8::kernels {
namespace {

template <class Source>
void largest_magnitude(const Exec& exec, std::int32_t* amax, const Source& x, std::int64_t count) {
  constexpr int kN = kPack<typename Source::Type>;
  const bool fits = packs_fit<kN>(kN, x.x);
  for_stretches(
      exec, "shard8::kernels::amax", count, SHARD8_LAMBDA(const Team& team, std::int64_t first, std::int64_t n) {
        const CastTotals totals = CastTotals{amax, nullptr}.seen(team);
        totals.add(team, {row_magnitude<kN>(team, n, fits, x.from(first)), 0, 0});
      });
}

}  // namespace

void amax(const Exec& exec, const tensor::Tensor& amax, const tensor::Tensor& x, const CastOptions& options) {
  require_count("amax", "amax", amax, 1);
  auto* bits = amax.as<std::int32_t>();
  dispatch_source(x, options.through_bf16, "amax",
                  [&](const auto& source) { largest_magnitude(exec, bits, source, x.count()); });
}

}  // namespace shard8::kernels

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/master.hpp"

#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/loops.hpp"
#include "tensor/bfloat16.hpp"

namespace shard8::kernels {

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

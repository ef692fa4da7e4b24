// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/master.hpp"

#include "kernels/kokkos/dispatch.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/kokkos/master_halves.hpp"

namespace shard8::kernels {

void split_master(const Exec& exec, const tensor::Tensor& weight, const tensor::Tensor& remainder,
                  const tensor::Tensor& master) {
  const auto count = master.count();
  require_count("split_master", "weight", weight, count);
  require_count("split_master", "remainder", remainder, count);
  auto* high = weight.as<tensor::BFloat16>();
  auto* low = remainder.as<std::int16_t>();
  const float* whole = master.as<float>();
  for_each(
      exec, "shard8::kernels::split_master", count, KOKKOS_LAMBDA(std::int64_t i) {
        const MasterHalves halves = split(whole[i]);
        high[i].bits = halves.weight;
        low[i] = halves.remainder;
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
  for_each(
      exec, "shard8::kernels::join_master", count, KOKKOS_LAMBDA(std::int64_t i) { whole[i] = join(high[i], low[i]); });
}

}  // namespace shard8::kernels

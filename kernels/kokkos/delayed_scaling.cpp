// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/delayed_scaling.hpp"

#include "kernels/kokkos/dispatch.hpp"
#include "kernels/kokkos/scale_change.hpp"

namespace shard8::kernels {

void delayed_update(const Exec& exec, const tensor::Tensor& scale, const tensor::Tensor& change,
                    const tensor::Tensor& history, const tensor::Tensor& amax, std::int64_t row, std::int64_t filled,
                    AmaxOf of, const ScaleRule& rule) {
  constexpr auto kName = "delayed_update";
  const std::int64_t n = scale.count(), stride = history.cols();
  require_count(kName, "change", change, n);
  require_count(kName, "amax", amax, n);
  SHARD8_REQUIRE(stride == n && row < history.rows() && filled >= 1 && filled <= history.rows(),
                 "{}: row {} and {} filled rows of a history {} of {} tensors", kName, row, filled,
                 tensor::to_string(history.shape), n);
  auto* scales = scale.as<float>();
  auto *changes = change.as<std::int32_t>(), *past = history.as<std::int32_t>(), *now = amax.as<std::int32_t>();
  for_each(
      exec, "shard8::kernels::delayed_update", n, KOKKOS_LAMBDA(std::int64_t i) {
        past[row * stride + i] = now[i];
        std::int32_t bits = now[i];
        for (std::int64_t h = 0; of == AmaxOf::all && h < filled; ++h)
          bits = past[h * stride + i] > bits ? past[h * stride + i] : bits;
        now[i] = 0;
        const float before = scales[i];
        const float after = scale_from_amax(std::bit_cast<float>(bits), rule, before);
        changes[i] = largest_change(changes[i], before, after);
        scales[i] = after;
      });
}

}  // namespace shard8::kernels

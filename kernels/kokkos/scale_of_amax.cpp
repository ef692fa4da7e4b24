// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/scale_change.hpp"

namespace shard8::kernels {

void scale_of_amax(const Exec& exec, const tensor::Tensor& scale, const tensor::Tensor& change,
                   const tensor::Tensor& amax, const ScaleRule& rule, bool clear) {
  constexpr auto kName = "scale_of_amax";
  const std::int64_t n = amax.count();
  require_count(kName, "scale", scale, n);
  if (!change.empty()) require_count(kName, "change", change, n);
  auto* scales = scale.as<float>();
  auto* changes = change.empty() ? nullptr : change.as<std::int32_t>();
  auto* bits = amax.as<std::int32_t>();
  for_each(
      exec, "shard8::kernels::scale_of_amax", n, SHARD8_LAMBDA(std::int64_t i) {
        const float after = scale_from_amax(std::bit_cast<float>(bits[i]), rule, 1.0f);
        if (changes != nullptr) changes[i] = largest_change(changes[i], scales[i], after);
        scales[i] = after;
        if (clear) bits[i] = 0;
      });
}

}  // namespace shard8::kernels

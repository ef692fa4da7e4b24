// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/adamw.hpp"

#include <cmath>

#include "kernels/kokkos/dispatch.hpp"
#include "kernels/kokkos/loops.hpp"

namespace shard8::kernels {

void adamw_step(const Exec& exec, const tensor::Tensor& p, const tensor::Tensor& m, const tensor::Tensor& v,
                const tensor::Tensor& g, const AdamwScalars& scalars) {
  const auto count = p.count();
  require_count("adamw_step", "m", m, count);
  require_count("adamw_step", "v", v, count);
  require_count("adamw_step", "g", g, count);
  const auto steps = static_cast<double>(scalars.step + 1);
  const double correction1 = 1.0 - std::pow(scalars.beta1, steps);
  const double correction2 = 1.0 - std::pow(scalars.beta2, steps);
  const auto gradient_scale = static_cast<float>(scalars.gradient_scale);
  const auto beta1 = static_cast<float>(scalars.beta1), new1 = static_cast<float>(1.0 - scalars.beta1);
  const auto beta2 = static_cast<float>(scalars.beta2), new2 = static_cast<float>(1.0 - scalars.beta2);
  const auto decay = static_cast<float>(1.0 - scalars.lr * scalars.weight_decay);
  const auto rate = static_cast<float>(scalars.lr / correction1);
  const auto inverse_root2 = static_cast<float>(1.0 / std::sqrt(correction2));
  const auto eps = static_cast<float>(scalars.eps);
  float *parameter = p.as<float>(), *first = m.as<float>(), *second = v.as<float>();
  const float* gradient = g.as<float>();
  for_each(
      exec, "shard8::kernels::adamw_step", count, KOKKOS_LAMBDA(std::int64_t i) {
        const float scaled = gradient[i] * gradient_scale;
        const float mi = beta1 * first[i] + new1 * scaled;
        const float vi = beta2 * second[i] + new2 * scaled * scaled;
        first[i] = mi;
        second[i] = vi;
        parameter[i] = parameter[i] * decay - rate * mi / (Kokkos::sqrt(vi) * inverse_root2 + eps);
      });
}

}  // namespace shard8::kernels

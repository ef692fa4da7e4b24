// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cross_entropy.hpp"
#include "kernels/kokkos/chunk_sums.hpp"
#include "kernels/kokkos/dispatch.hpp"
#include "kernels/kokkos/fast_math.hpp"
#include "kernels/kokkos/loops.hpp"

namespace shard8::kernels {

void cross_entropy_max(const Exec& exec, const tensor::Tensor& row_maxima, const tensor::Tensor& logits,
                       std::int64_t valid) {
  const auto rows = logits.rows(), cols = logits.cols();
  require_count("cross_entropy_max", "row_max", row_maxima, rows);
  SHARD8_REQUIRE(valid <= cols, "cross_entropy_max: {} valid columns of {}", valid, cols);
  float* largest = row_maxima.as<float>();
  const float* values = logits.as<float>();
  for_rows(
      exec, "shard8::kernels::cross_entropy_max", rows, KOKKOS_LAMBDA(const Team& team, std::int64_t row) {
        const float* in = values + row * cols;
        const float m = row_max(team, valid, [=](std::int64_t i) { return in[i]; });
        once(team, [=] { largest[row] = m; });
      });
}

void cross_entropy_sums(const Exec& exec, const tensor::Tensor& sums, const tensor::Tensor& logits,
                        const tensor::Tensor& row_maxima, const tensor::Tensor& targets, std::int64_t first_row,
                        std::int64_t valid) {
  const auto rows = logits.rows(), cols = logits.cols();
  require_count("cross_entropy_sums", "sums", sums, 2 * rows);
  require_count("cross_entropy_sums", "row_max", row_maxima, rows);
  require_count("cross_entropy_sums", "targets", targets, rows);
  SHARD8_REQUIRE(valid <= cols, "cross_entropy_sums: {} valid columns of {}", valid, cols);
  float* out = sums.as<float>();
  const float *values = logits.as<float>(), *largest = row_maxima.as<float>();
  const auto* target = targets.as<std::int32_t>();
  for_rows(
      exec, "shard8::kernels::cross_entropy_sums", rows, KOKKOS_LAMBDA(const Team& team, std::int64_t row) {
        const float* in = values + row * cols;
        const float m = largest[row];
        const float sum = row_sum(team, valid, [=](std::int64_t i) { return fast_exp(in[i] - m); });
        const std::int64_t t = target[row] - first_row;
        once(team, [=] {
          out[row] = sum;
          out[rows + row] = t >= 0 && t < valid ? in[t] - m : 0.0f;
        });
      });
}

double cross_entropy_loss(const Exec& exec, const tensor::Tensor& sums, const tensor::Tensor& weights) {
  const auto rows = weights.count();
  require_count("cross_entropy_loss", "sums", sums, 2 * rows);
  const float *in = sums.as<float>(), *weight = weights.as<float>();
  return chunked_sum(
      exec, "shard8::kernels::cross_entropy_loss", rows, KOKKOS_LAMBDA(std::int64_t first, std::int64_t last) {
        double sum = 0;
        for (auto t = first; t < last; ++t) {
          if (weight[t] == 0.0f) continue;  // padding, whatever its logits are
          const double loss = Kokkos::log(static_cast<double>(in[t])) - static_cast<double>(in[rows + t]);
          sum += static_cast<double>(weight[t]) * loss;
        }
        return sum;
      });
}

}  // namespace shard8::kernels

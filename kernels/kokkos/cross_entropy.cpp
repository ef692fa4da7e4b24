// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/check/arguments.hpp"
#include "kernels/kokkos/fast_math.hpp"
#include "kernels/kokkos/loops.hpp"
#include "kernels/kokkos/row_sums.hpp"
#include "kernels/vocabulary.hpp"

namespace shard8::kernels {
namespace {

/// The terms of the loss: weight·(log Σexp − target's shifted logit) of one token.
struct LossTerms {
  const float *sums, *weight;
  std::int64_t rows;

  KOKKOS_INLINE_FUNCTION double of(std::int64_t t) const {
    if (weight[t] == 0.0f) return 0;  // padding, whatever its logits are
    const double loss = Kokkos::log(static_cast<double>(sums[t])) - static_cast<double>(sums[rows + t]);
    return static_cast<double>(weight[t]) * loss;
  }
  template <class W>
  KOKKOS_INLINE_FUNCTION double operator()(const W&, std::int64_t t) const {
    return of(t);
  }
};

struct Inputs {
  const float *logits, *row_max, *sums, *weights;
  const std::int32_t* targets;
  std::int64_t rows, cols, first_row, valid;
  float scale;
};

template <class T>
void backward(const Exec& exec, T* dlogits, const Inputs& from) {
  constexpr int kN = kPack<float>;
  const bool fits = packs_fit<kN>(from.cols, dlogits, from.logits);
  for_rows(
      exec, "shard8::kernels::cross_entropy_backward", from.rows, SHARD8_LAMBDA(const Team& team, std::int64_t row) {
        const float* in = from.logits + row * from.cols;
        T* out = dlogits + row * from.cols;
        const float weight = from.scale * from.weights[row];
        const std::int64_t valid = weight == 0.0f ? 0 : from.valid;
        const float m = from.row_max[row], share = weight / from.sums[row];
        const std::int64_t t = from.targets[row] - from.first_row;
        const bool own = t >= 0 && t < valid;
        const float at_target = own ? share * fast_exp(in[t] - m) - weight : 0.0f;
        row_barrier(team);
        row_packs<kN>(team, valid, fits, [=](auto w, std::int64_t i) {
          const auto x = w.load(in, i);
          w.store(out, i, w.each([&](int j) { return share * fast_exp(x[j] - m); }));
        });
        row_for(team, from.cols - valid, [=](std::int64_t i) { out[valid + i] = static_cast<T>(0.0f); });
        row_barrier(team);
        if (own) once(team, [=] { out[t] = static_cast<T>(at_target); });
      });
}

}  // namespace

void cross_entropy_max(const Exec& exec, const tensor::Tensor& row_maxima, const tensor::Tensor& logits,
                       std::int64_t valid) {
  const auto rows = logits.rows(), cols = logits.cols();
  require_count("cross_entropy_max", "row_max", row_maxima, rows);
  SHARD8_REQUIRE(valid <= cols, "cross_entropy_max: {} valid columns of {}", valid, cols);
  float* largest = row_maxima.as<float>();
  const float* values = logits.as<float>();
  constexpr int kN = kPack<float>;
  const bool fits = packs_fit<kN>(cols, values);
  for_rows(
      exec, "shard8::kernels::cross_entropy_max", rows, SHARD8_LAMBDA(const Team& team, std::int64_t row) {
        const float m = row_max<kN>(team, valid, fits, values + row * cols);
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
  constexpr int kN = kPack<float>;
  const bool fits = packs_fit<kN>(cols, values);
  for_rows(
      exec, "shard8::kernels::cross_entropy_sums", rows, SHARD8_LAMBDA(const Team& team, std::int64_t row) {
        const float* in = values + row * cols;
        const float m = largest[row];
        const float sum = row_sum<kN, 4>(team, valid, fits, [=](auto w, std::int64_t i) {
          const auto x = w.load(in, i);
          return w.sum([&](int j) { return fast_exp(x[j] - m); });
        });
        const std::int64_t t = target[row] - first_row;
        once(team, [=] {
          out[row] = sum;
          out[rows + row] = t >= 0 && t < valid ? in[t] - m : 0.0f;
        });
      });
}

void cross_entropy_loss(const Exec& exec, const tensor::Tensor& total, const tensor::Tensor& sums,
                        const tensor::Tensor& weights) {
  constexpr auto kName = "cross_entropy_loss";
  const auto rows = weights.count();
  require_count(kName, "sums", sums, 2 * rows);
  const LossTerms terms{sums.as<float>(), weights.as<float>(), rows};
  add_sum<1>(exec, "shard8::kernels::cross_entropy_loss", require_total(kName, total), rows, false, terms,
             [=](std::int64_t first, std::int64_t last) {
               double sum = 0;
               for (auto t = first; t < last; ++t) sum += terms.of(t);
               return sum;
             });
}

void cross_entropy_backward(const Exec& exec, const tensor::Tensor& dlogits, const tensor::Tensor& logits,
                            const tensor::Tensor& row_maxima, const tensor::Tensor& sums, const tensor::Tensor& targets,
                            const tensor::Tensor& weights, std::int64_t first_row, std::int64_t valid, float scale) {
  constexpr auto kName = "cross_entropy_backward";
  const auto rows = logits.rows(), cols = logits.cols();
  require_count(kName, "dlogits", dlogits, rows * cols);
  require_count(kName, "row_max", row_maxima, rows);
  require_count(kName, "sums", sums, 2 * rows);
  require_count(kName, "targets", targets, rows);
  require_count(kName, "weights", weights, rows);
  SHARD8_REQUIRE(valid <= cols, "{}: {} valid columns of {}", kName, valid, cols);
  const Inputs from{logits.as<float>(),
                    row_maxima.as<float>(),
                    sums.as<float>(),
                    weights.as<float>(),
                    targets.as<std::int32_t>(),
                    rows,
                    cols,
                    first_row,
                    valid,
                    scale};
  dispatch_real(dlogits.dtype, kName, [&]<class T>(std::type_identity<T>) { backward(exec, dlogits.as<T>(), from); });
}

}  // namespace shard8::kernels

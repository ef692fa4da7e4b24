// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.hpp"

#include "kernels/kokkos/chunk_sums.hpp"
#include "kernels/kokkos/column_sums.hpp"
#include "kernels/kokkos/dispatch.hpp"
#include "kernels/norm.hpp"

namespace shard8::kernels {
namespace {

template <class T>
void residual(const Exec& exec, T* out, const T* x, const T* y, std::int64_t count) {
  for_each(
      exec, "shard8::kernels::residual_add", count,
      KOKKOS_LAMBDA(std::int64_t i) { out[i] = static_cast<T>(static_cast<float>(x[i]) + static_cast<float>(y[i])); });
}

template <class T>
void residual(const Exec& exec, T* out, const T* x, const T* y, const T* bias, std::int64_t rows, std::int64_t cols) {
  for_rows(
      exec, "shard8::kernels::residual_add", rows, KOKKOS_LAMBDA(const Team& team, std::int64_t row) {
        T* to = out + row * cols;
        const T *a = x + row * cols, *b = y + row * cols;
        row_for(team, cols, [=](std::int64_t i) {
          to[i] = static_cast<T>(static_cast<float>(a[i]) + (static_cast<float>(b[i]) + static_cast<float>(bias[i])));
        });
      });
}

template <class Out, class In>
void add(const Exec& exec, Out* out, const In* x, std::int64_t count) {
  for_each(
      exec, "shard8::kernels::add_to", count, KOKKOS_LAMBDA(std::int64_t i) {
        out[i] = static_cast<Out>(static_cast<float>(out[i]) + static_cast<float>(x[i]));
      });
}

template <class T>
void column_sums(const Exec& exec, float* partial, const T* dy, const RowChunks& chunks, std::int64_t hidden) {
  for_rows(
      exec, "shard8::kernels::bias_gradient", chunks.count(), KOKKOS_LAMBDA(const Team& team, std::int64_t chunk) {
        float* sums = partial + chunk * hidden;
        row_for(team, hidden, [=](std::int64_t i) { sums[i] = 0; });
        for (auto row = chunks.first(chunk); row < chunks.last(chunk); ++row) {
          const T* in = dy + row * hidden;
          row_for(team, hidden, [=](std::int64_t i) { sums[i] += static_cast<float>(in[i]); });
        }
      });
}

}  // namespace

void residual_add(const Exec& exec, const tensor::Tensor& out, const tensor::Tensor& x, const tensor::Tensor& y,
                  const tensor::Tensor& bias) {
  require_count("residual_add", "out", out, x.count());
  require_count("residual_add", "y", y, x.count());
  if (!bias.empty()) require_count("residual_add", "bias", bias, x.cols());
  dispatch_real(x.dtype, "residual_add", [&]<class T>(std::type_identity<T>) {
    if (bias.empty()) {
      residual(exec, out.as<T>(), x.as<T>(), y.as<T>(), x.count());
    } else {
      residual(exec, out.as<T>(), x.as<T>(), y.as<T>(), bias.as<T>(), x.rows(), x.cols());
    }
  });
}

void add_to(const Exec& exec, const tensor::Tensor& out, const tensor::Tensor& x) {
  require_count("add_to", "x", x, out.count());
  dispatch_real(out.dtype, "add_to", [&]<class Out>(std::type_identity<Out>) {
    dispatch_real(x.dtype, "add_to",
                  [&]<class In>(std::type_identity<In>) { add(exec, out.as<Out>(), x.as<In>(), out.count()); });
  });
}

void bias_gradient(const Exec& exec, const tensor::Tensor& dbias, const tensor::Tensor& dy,
                   const tensor::Tensor& workspace) {
  const auto rows = dy.rows(), hidden = dy.cols();
  require_count("bias_gradient", "dbias", dbias, hidden);
  require_workspace("bias_gradient", workspace, norm_workspace_bytes(rows, hidden));
  const auto chunks = RowChunks::of(rows);
  auto* partial = reinterpret_cast<float*>(workspace.as<std::uint8_t>());
  dispatch_real(dy.dtype, "bias_gradient",
                [&]<class T>(std::type_identity<T>) { column_sums(exec, partial, dy.as<T>(), chunks, hidden); });
  add_partial_sums(exec, "shard8::kernels::bias_gradient_total", dbias.as<float>(), partial, chunks.count(), hidden);
}

double sum_of_squares(const Exec& exec, const tensor::Tensor& x) {
  const float* in = x.as<float>();
  return chunked_sum(
      exec, "shard8::kernels::sum_of_squares", x.count(), KOKKOS_LAMBDA(std::int64_t first, std::int64_t last) {
        const float* values = in;
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t i = first; i < last; ++i) {
          const auto v = static_cast<double>(values[i]);
          sum += v * v;
        }
        return sum;
      });
}

}  // namespace shard8::kernels

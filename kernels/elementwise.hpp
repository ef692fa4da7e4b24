// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// out (T, H) = x + y [+ bias (H) on every row, if not empty], in fp32, rounded once. out may be x
/// or y.
void residual_add(const tensor::Exec& exec, const tensor::Tensor& out, const tensor::Tensor& x, const tensor::Tensor& y,
                  const tensor::Tensor& bias);

/// dbias (H) fp32 += column sums of dy (T, H) in a fixed order; workspace: norm_workspace_bytes(T, H).
void bias_gradient(const tensor::Exec& exec, const tensor::Tensor& dbias, const tensor::Tensor& dy,
                   const tensor::Tensor& workspace);

/// out = in, converted (fp32 ↔ bf16, round to nearest even) or copied; equal counts.
void cast(const tensor::Exec& exec, const tensor::Tensor& out, const tensor::Tensor& in);

/// One call of cast().
struct Cast {
  tensor::Tensor out, in;
};
inline constexpr std::size_t kCastsAtOnce = 16;
/// Runs cast() for each. On a device one kernel runs up to kCastsAtOnce of them, if all convert between the same types.
void cast_each(const tensor::Exec& exec, std::span<const Cast> casts);

/// All bytes 0 (zero of every dtype).
void fill_zero(const tensor::Exec& exec, const tensor::Tensor& out);
/// Every element 1.
void fill_one(const tensor::Exec& exec, const tensor::Tensor& out);

/// total += Σ x² of fp32 x, accumulated in double, in an order that does not depend on the threads;
/// total is a double as 8 bytes of u8.
void sum_of_squares(const tensor::Exec& exec, const tensor::Tensor& total, const tensor::Tensor& x);

}  // namespace shard8::kernels

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/context.hpp"
#include "tensor/operand.hpp"

namespace shard8::model {

/// The matrix products of kernels/gemm.hpp, with its shapes, timed as gemm. The context's observer is told before each,
/// and collectives under way advance after each.
///
/// y = x·wᵀ + bias + residual; bias and residual may be empty. dx = dy·w. dw = dyᵀ·x, added to dw with `accumulate`.
void fprop(const Context& context, const tensor::Tensor& y, const tensor::Operand& x, const tensor::Operand& w,
           const tensor::Tensor& bias, const tensor::Tensor& residual = {});
void dgrad(const Context& context, const tensor::Tensor& dx, const tensor::Operand& dy, const tensor::Operand& w);
void wgrad(const Context& context, const tensor::Tensor& dw, const tensor::Operand& dy, const tensor::Operand& x,
           bool accumulate);

}  // namespace shard8::model

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// Splits an fp32 master, of any shape, into a bf16 weight and an i16 remainder of the same count, without loss. weight
/// is the upper half of bits(master) + 2^15: master rounded to nearest, ties away from zero. So it equals the rounding
/// to nearest even but for exact ties. remainder = bits(master) − (bits(weight) << 16), between −2^15 and 2^15 − 1. A
/// NaN becomes a quiet NaN with remainder 0. Other counts or dtypes are an Error(failed).
void split_master(const tensor::Exec& exec, const tensor::Tensor& weight, const tensor::Tensor& remainder,
                  const tensor::Tensor& master);
/// Joins weight and remainder of split_master() to the fp32 master, bit for bit. A NaN stays NaN, but its payload may
/// differ from the first one.
void join_master(const tensor::Exec& exec, const tensor::Tensor& master, const tensor::Tensor& weight,
                 const tensor::Tensor& remainder);

}  // namespace shard8::kernels

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// Splits an fp32 master into a bf16 weight and a 16-bit remainder, without loss. weight is the upper half of
/// bits(master) + 2^15, which is master rounded to nearest, ties away from zero; so weights equal those of round to
/// nearest even but for exact ties. remainder = bits(master) − (bits(weight) << 16) as i16.
void split_master(const tensor::Exec& exec, const tensor::Tensor& weight, const tensor::Tensor& remainder,
                  const tensor::Tensor& master);
/// Joins them to the fp32 master, bit for bit; a NaN stays a NaN, maybe another one.
void join_master(const tensor::Exec& exec, const tensor::Tensor& master, const tensor::Tensor& weight,
                 const tensor::Tensor& remainder);

}  // namespace shard8::kernels

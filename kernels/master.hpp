// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// An fp32 master as a bf16 weight and a 16-bit remainder, without loss: weight = bits(master) + 2^15
/// without its low half (round to nearest, ties away from zero), remainder = bits(master) − (bits(weight) << 16) as
/// i16. So the weights are those of round to nearest even but for exact ties.
void split_master(const tensor::Exec& exec, const tensor::Tensor& weight, const tensor::Tensor& remainder,
                  const tensor::Tensor& master);
/// The fp32 master again, bit for bit; of NaN only that it is one.
void join_master(const tensor::Exec& exec, const tensor::Tensor& master, const tensor::Tensor& weight,
                 const tensor::Tensor& remainder);

}  // namespace shard8::kernels

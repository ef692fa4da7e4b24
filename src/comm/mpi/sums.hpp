// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "comm/sum_order.hpp"
#include "tensor/dtype.hpp"

namespace shard8::comm {

/// out[i] = the sum of sources[0][i], sources[1][i], … in fp32, added in `order`, then addend[i] unless `addend` is
/// null; bf16 is rounded once, at the end. fp32 or bf16. out may be one of the sources, or the addend.
void sum_in_order(std::byte* out, std::span<const std::byte* const> sources, std::int64_t count, tensor::DType dtype,
                  SumOrder order = SumOrder::ranks, const std::byte* addend = nullptr);

/// out[i] = begin[i] + sources[0][i] + sources[1][i] + …, added in that order in fp32. Sources are of `dtype`, out is
/// of `out_dtype`; both are fp32 or bf16. `begin` may be null: then the sum begins with sources[0]. out may be `begin`,
/// or one of the sources if it has their dtype.
void add_in_order(std::byte* out, tensor::DType out_dtype, const float* begin,
                  std::span<const std::byte* const> sources, std::int64_t count, tensor::DType dtype);

/// out[i] = the largest of sources[0][i], sources[1][i], …; NaN is larger than any number. The dtype may also be i32,
/// compared as signed integers.
void max_in_order(std::byte* out, std::span<const std::byte* const> sources, std::int64_t count, tensor::DType dtype);

}  // namespace shard8::comm

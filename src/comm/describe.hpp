// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "comm/group.hpp"
#include "tensor/tensor.hpp"

namespace shard8::comm {

std::uint64_t total_bytes(std::span<const tensor::Tensor> tensors);
/// The dtype's name, "mixed" for several, "none" for no tensor.
std::string_view dtype_name(std::span<const tensor::Tensor> tensors);

/// Throw Error(failed) naming the operation and the group: elements without memory; rows that do
/// not divide by the ranks; a dtype that cannot be reduced.
void require_data(const tensor::Tensor& t, const Group& group, std::string_view operation);
void require_rows(const tensor::Tensor& t, const Group& group, std::string_view operation);
void require_reducible(const tensor::Tensor& t, const Group& group, std::string_view operation);

}  // namespace shard8::comm

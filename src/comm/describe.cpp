// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/describe.hpp"

#include "base/error.hpp"

namespace shard8::comm {

std::uint64_t total_bytes(std::span<const tensor::Tensor> tensors) {
  std::uint64_t bytes = 0;
  for (const tensor::Tensor& t : tensors) bytes += t.bytes();
  return bytes;
}

std::string_view dtype_name(std::span<const tensor::Tensor> tensors) {
  if (tensors.empty()) return "none";
  for (const tensor::Tensor& t : tensors) {
    if (t.dtype != tensors.front().dtype) return "mixed";
  }
  return name_of(tensors.front().dtype);
}

void require_data(const tensor::Tensor& t, const Group& group, std::string_view operation) {
  SHARD8_REQUIRE(t.data != nullptr || t.count() == 0, "{} in group '{}': tensor {} of {} has no memory", operation,
                 group.name, to_string(t.shape), name_of(t.dtype));
}

void require_rows(const tensor::Tensor& t, const Group& group, std::string_view operation) {
  SHARD8_REQUIRE(t.rows() % group.size == 0, "{} in group '{}': {} rows of {} do not divide by {} ranks", operation,
                 group.name, t.rows(), to_string(t.shape), group.size);
}

void require_reducible(const tensor::Tensor& t, const Group& group, std::string_view operation) {
  SHARD8_REQUIRE(t.dtype == tensor::DType::fp32 || t.dtype == tensor::DType::bf16,
                 "{} in group '{}': tensor {} is {}; only fp32 and bf16 can be reduced", operation, group.name,
                 to_string(t.shape), name_of(t.dtype));
}

}  // namespace shard8::comm

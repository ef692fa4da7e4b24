// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/describe.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace shard8::comm {

std::uint64_t total_bytes(std::span<const tensor::Tensor> tensors) {
  std::uint64_t bytes = 0;
  for (const tensor::Tensor& t : tensors) bytes += t.bytes();
  return bytes;
}

std::vector<DTypeBytes> bytes_by_dtype(std::span<const tensor::Tensor> tensors) {
  std::vector<DTypeBytes> sizes;
  for (const tensor::Tensor& t : tensors) {
    if (t.bytes() == 0) continue;
    const auto same = [&t](const DTypeBytes& size) { return size.dtype == name_of(t.dtype); };
    const auto found = std::find_if(sizes.begin(), sizes.end(), same);
    if (found == sizes.end()) {
      sizes.push_back({name_of(t.dtype), t.bytes()});
    } else {
      found->bytes += t.bytes();
    }
  }
  if (sizes.empty()) sizes.push_back({tensors.empty() ? "none" : name_of(tensors.front().dtype), 0});
  return sizes;
}

void require_data(const tensor::Tensor& t, const Group& group, std::string_view operation) {
  SHARD8_REQUIRE(t.data != nullptr || t.count() == 0, "{} in group '{}': tensor {} of {} has no memory", operation,
                 group.name, to_string(t.shape), name_of(t.dtype));
}

void require_rows(const tensor::Tensor& t, const Group& group, std::string_view operation) {
  SHARD8_REQUIRE(t.rows() % group.size == 0, "{} in group '{}': {} rows of {} do not divide by {} ranks", operation,
                 group.name, t.rows(), to_string(t.shape), group.size);
}

void require_summable(const tensor::Tensor& t, const Group& group, std::string_view operation) {
  SHARD8_REQUIRE(t.dtype == tensor::DType::fp32 || t.dtype == tensor::DType::bf16,
                 "{} in group '{}': tensor {} is {}; only fp32 and bf16 can be summed", operation, group.name,
                 to_string(t.shape), name_of(t.dtype));
}

void require_comparable(const tensor::Tensor& t, const Group& group, std::string_view operation) {
  SHARD8_REQUIRE(t.dtype == tensor::DType::fp32 || t.dtype == tensor::DType::bf16 || t.dtype == tensor::DType::i32,
                 "{} in group '{}': tensor {} is {}; only fp32, bf16 and i32 have a maximum", operation, group.name,
                 to_string(t.shape), name_of(t.dtype));
}

}  // namespace shard8::comm

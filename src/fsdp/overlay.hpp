// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

#include "tensor/arena.hpp"

namespace shard8::fsdp {

/// lay_out(item) for each, all over the same memory, which is as large as the largest of them needs:
/// for buffers that hold one of them at a time.
template <class LayOut>
void overlay(tensor::Arena& arena, const std::vector<int>& items, const LayOut& lay_out) {
  const std::size_t begin = arena.mark();
  std::size_t bytes = 0;
  for (const int item : items) {
    lay_out(item);
    bytes = std::max(bytes, arena.mark() - begin);
    arena.release(begin);
  }
  arena.allocate({static_cast<std::int64_t>(bytes)}, tensor::DType::u8);
}

}  // namespace shard8::fsdp

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "tensor/arena.hpp"

namespace shard8::tensor {

/// Lays out several groups of tensors in the same memory, for groups that are never in use at the same time. The memory
/// is as large as the largest group. The arena must not be used for anything else between construction and close().
class Overlay {
 public:
  explicit Overlay(Arena& arena) : arena_(arena), begin_(arena.mark()) {}

  /// Adds the group that lay_out() allocates.
  template <class LayOut>
  void add(const LayOut& lay_out) {
    lay_out();
    bytes_ = std::max(bytes_, arena_.mark() - begin_);
    arena_.release(begin_);
  }
  void close() { arena_.allocate({static_cast<std::int64_t>(bytes_)}, DType::u8); }

 private:
  Arena& arena_;
  std::size_t begin_, bytes_ = 0;
};

/// An Overlay of these groups, each a call that allocates.
template <class... LayOuts>
void overlay(Arena& arena, const LayOuts&... lay_outs) {
  Overlay memory(arena);
  (memory.add(lay_outs), ...);
  memory.close();
}

}  // namespace shard8::tensor

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "tensor/arena.hpp"

namespace shard8::tensor {

/// Lays out several groups of tensors in the same memory of an arena. The groups must never be in use at the same time.
/// Together they take as much memory as the largest group. Nothing else may be allocated from the arena between
/// construction and close().
class Overlay {
 public:
  explicit Overlay(Arena& arena) : arena_(arena), begin_(arena.mark()) {}

  /// Adds a group: lay_out() allocates its tensors from the arena.
  template <class LayOut>
  void add(const LayOut& lay_out) {
    lay_out();
    bytes_ = std::max(bytes_, arena_.mark() - begin_);
    arena_.release(begin_);
  }
  /// Keeps the memory of the largest group allocated. Call it once, after the last add().
  void close() { arena_.allocate({static_cast<std::int64_t>(bytes_)}, DType::u8); }

 private:
  Arena& arena_;
  std::size_t begin_, bytes_ = 0;
};

/// Lays out one group for each of `lay_outs` in the same memory, as Overlay does. Each is a call that allocates tensors
/// from `arena`.
template <class... LayOuts>
void overlay(Arena& arena, const LayOuts&... lay_outs) {
  Overlay memory(arena);
  (memory.add(lay_outs), ...);
  memory.close();
}

}  // namespace shard8::tensor

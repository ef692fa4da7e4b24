// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "tensor/arena.hpp"

namespace shard8::tensor {

/// Lays things out over the same memory, for what is never needed at the same time: as large as the
/// largest of them needs. Other allocations of the arena come before add() or after close().
class Overlay {
 public:
  explicit Overlay(Arena& arena) : arena_(arena), begin_(arena.mark()) {}

  /// What lay_out() allocates.
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

/// Of these, each a call that allocates.
template <class... LayOuts>
void overlay(Arena& arena, const LayOuts&... lay_outs) {
  Overlay memory(arena);
  (memory.add(lay_outs), ...);
  memory.close();
}

}  // namespace shard8::tensor

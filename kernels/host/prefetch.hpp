// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace shard8::kernels {

/// Rows that will be wanted soon, asked for a few cache lines at a time between pieces of
/// arithmetic: the rows of one head lie too far apart for the hardware to foresee them, and waiting
/// for them cost a third of attention's time.
class Prefetcher {
 public:
  /// `rows` rows of `dim` elements. What does not fit in the queue is dropped: these are hints.
  template <class T>
  void read(const T* data, std::int64_t stride, std::int64_t rows, std::int64_t dim) {
    add(data, stride, rows, dim, false);
  }
  template <class T>
  void write(const T* data, std::int64_t stride, std::int64_t rows, std::int64_t dim) {
    add(data, stride, rows, dim, true);
  }

  /// Asks for the next few lines.
  void advance() {
    for (int n = 0; n < kLines && first_ != last_; ++n) {
      auto& q = queue_[first_ % kQueue];
      if (q.write) {
        __builtin_prefetch(q.row + q.at, 1, 3);
      } else {
        __builtin_prefetch(q.row + q.at, 0, 2);
      }
      q.at += kLineBytes;
      if (q.at < q.bytes) continue;
      q.at = 0;
      q.row += q.stride;
      if (--q.rows == 0) ++first_;
    }
  }

 private:
  static constexpr int kLines = 12;
  static constexpr std::size_t kQueue = 16;
  static constexpr std::int64_t kLineBytes = 64;
  struct Rows {
    const char* row;
    std::int64_t stride, rows, bytes, at;
    bool write;
  };
  template <class T>
  void add(const T* data, std::int64_t stride, std::int64_t rows, std::int64_t dim, bool write) {
    if (rows <= 0 || dim <= 0 || last_ - first_ == kQueue) return;
    constexpr auto size = static_cast<std::int64_t>(sizeof(T));
    queue_[last_++ % kQueue] = {reinterpret_cast<const char*>(data), stride * size, rows, dim * size, 0, write};
  }

  std::array<Rows, kQueue> queue_;
  std::size_t first_ = 0, last_ = 0;
};

}  // namespace shard8::kernels

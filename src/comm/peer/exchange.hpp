// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "comm/peer/handshake.hpp"
#include "comm/peer/sum_parts.hpp"
#include "tensor/dtype.hpp"

namespace shard8::comm::peer {

/// Kernels in which ranks exchange data in each other's memory. They wait for each other on at most `blocks`
/// multiprocessors, so that other kernels, for which another rank may wait, have multiprocessors, too.
struct ExchangeKernels {
  cudaStream_t stream;
  int blocks;

  /// Addresses to which the same bytes are copied.
  struct Destinations {
    std::byte* data[kMostRanks] = {};
    int count = 0;

    void add(std::byte* copy) { data[count++] = copy; }
  };
  void copy(const Handshake& handshake, Turn turn, const std::byte* from, std::size_t bytes,
            const Destinations& to) const;
  /// Copies `rows` rows of `width` bytes, which lie one behind the other in `from`, to rows that begin `pitch` bytes
  /// apart. One kernel is the whole exchange.
  void copy_rows(const Handshake& handshake, const std::byte* from, std::size_t rows, std::size_t width,
                 std::size_t pitch, const Destinations& to) const;

  /// Tells the other ranks that this rank's stream has come to `word`, and waits until they have told this rank so.
  /// What their streams did before is then visible to what this stream is given next. One thread block waits. With
  /// Meeting::done_alone no kernel has told them Handshake::ready; this one tells them both words.
  enum class Meeting { ready, done, done_alone };
  void meet(const Handshake& handshake, Meeting meeting) const;

  /// See sum_parts().
  void sum(const Handshake& handshake, Turn turn, void* out, tensor::DType dtype, std::int64_t count,
           const Parts& parts) const;
};

}  // namespace shard8::comm::peer

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

namespace shard8::comm::peer {

/// A 32-bit word in device memory, of this rank or mapped from another.
using FlagAddress = std::uint32_t*;

/// Signals between ranks in stream order, by words in each other's memory. The stream writes numbers to some words and
/// waits until other words have reached a number. No multiprocessor takes part.
class StreamFlags {
 public:
  StreamFlags();

  void write(FlagAddress flag, std::uint32_t number);
  /// The stream waits until the word has reached `number`, cyclically.
  void await(FlagAddress flag, std::uint32_t number);
  /// Gives the writes and waits so far to the stream, in their order. At most 255.
  void enqueue(cudaStream_t stream);

 private:
  using BatchMemOp = CUresult (*)(CUstream, unsigned, CUstreamBatchMemOpParams*, unsigned);
  BatchMemOp batch_;
  std::vector<CUstreamBatchMemOpParams> operations_;
};

}  // namespace shard8::comm::peer

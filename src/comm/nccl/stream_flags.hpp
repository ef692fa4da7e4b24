// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

namespace shard8::comm::nccl {

/// A 32-bit word in device memory, of this rank or mapped from another.
using FlagAddress = std::uint32_t*;

/// What ranks tell each other in stream order, by words in each other's memory: the stream writes a number
/// to some of them and goes on when others have reached it. No multiprocessor takes part.
class StreamFlags {
 public:
  StreamFlags();

  void write(FlagAddress flag, std::uint32_t number);
  /// The stream waits until the word is `number` or one that came after it (cyclically).
  void await(FlagAddress flag, std::uint32_t number);
  /// Gives what was gathered to the stream, in order, and forgets it. At most 255 at a time.
  void enqueue(cudaStream_t stream);

 private:
  using BatchMemOp = CUresult (*)(CUstream, unsigned, CUstreamBatchMemOpParams*, unsigned);
  BatchMemOp batch_;
  std::vector<CUstreamBatchMemOpParams> operations_;
};

}  // namespace shard8::comm::nccl

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

namespace shard8::comm::peer {

/// A 32-bit word in device memory.
using FlagAddress = std::uint32_t*;

/// Writes and waits of a stream on words in this rank's memory. No multiprocessor takes part. The words of other ranks
/// must not be given here: since CUDA 13.1 a stream cannot write to memory of another device (NVIDIA/nccl#2052).
class StreamFlags {
 public:
  StreamFlags();

  /// The stream writes `number` to the word, behind all that the stream wrote before.
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

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "kernels/attention_shape.hpp"

namespace shard8::kernels::cuda {

/// Operands in the device's memory, laid out as kernels/attention.hpp says. All are BF16 but lse, and aligned to 16
/// bytes.
struct SdpaForward {
  void* o;
  float* lse;
  const void* qkv;
};
struct SdpaBackward {
  void* dqkv;
  const void *dout, *o, *qkv;
  const float* lse;
};

/// Causal attention in BF16 by cuDNN's fused kernels, without copies of the tensors. The plan for a shape is built at
/// its first call, which takes about a second, and kept; nothing is allocated on the device. An object is for one
/// device and one thread.
class Sdpa {
 public:
  Sdpa();
  ~Sdpa();
  Sdpa(Sdpa&&) noexcept;
  Sdpa& operator=(Sdpa&&) noexcept;

  /// Returns false, and does nothing, if cuDNN does not compute this shape on this device; note() says why.
  /// Throws when no plan fits into the workspace, or when a plan that has run before fails.
  bool forward(cudaStream_t stream, const SdpaForward& operands, const AttentionShape& shape,
               std::span<std::byte> workspace);
  bool backward(cudaStream_t stream, const SdpaBackward& operands, const AttentionShape& shape,
                std::span<std::byte> workspace);

  /// What computed a shape: "cuDNN 9.19.0", with "in 4 parts" if a pass is cut to fit its workspace, or the reason why
  /// cuDNN did not; empty for a shape without a call.
  std::string note(const AttentionShape& shape) const;

  /// Enough for both passes, of compute capability 9 and later (where it is too little, a pass is cut
  /// into parts). With N = batch·heads·seq and D = head_dim, backward takes, each rounded up to 256,
  /// - 4·N for Σ dout·o;
  /// - grouped queries: 4·N·D for the gradients of k and v of every query head in BF16;
  /// - not deterministic: 4·N·D for dq in FP32, to which blocks of keys add as they come;
  /// - deterministic: 2·batch·heads·seq·seq, rounded up to 64 by 128, for the gradients of all scores,
  ///   of as many sequences or heads at a time as need at most 512 MiB of that (one kv head at least).
  static std::size_t workspace_bytes(const AttentionShape& shape);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shard8::kernels::cuda

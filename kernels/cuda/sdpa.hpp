// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "kernels/attention.hpp"

namespace shard8::kernels::cuda {

/// The operands of a call, in the device's memory, laid out as kernels/attention.hpp states. lse is FP32, all others
/// are BF16. All operands are aligned to 16 bytes.
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
/// the first call with that shape, which takes about a second, and is kept. Nothing is allocated on the device. An
/// object is for one device and one thread.
class Sdpa {
 public:
  Sdpa();
  ~Sdpa();
  Sdpa(Sdpa&&) noexcept;
  Sdpa& operator=(Sdpa&&) noexcept;

  /// Enqueues one direction; the first call with a shape also waits for the stream. Returns false, and does nothing, if
  /// cuDNN does not compute this shape on this device; note() says why. Throws base::Error if no plan fits into the
  /// workspace, or if a plan that has run before fails.
  bool forward(cudaStream_t stream, const SdpaForward& operands, const AttentionShape& shape,
               std::span<std::byte> workspace);
  bool backward(cudaStream_t stream, const SdpaBackward& operands, const AttentionShape& shape,
                std::span<std::byte> workspace);

  /// What computed a shape, for reports: "forward by cuDNN 9.19.0, backward by cuDNN 9.19.0 in 4 parts" (a pass is cut
  /// into parts to fit its workspace), or "forward by portable kernels (reason)". Empty if there was no call with the
  /// shape.
  std::string note(const AttentionShape& shape) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shard8::kernels::cuda

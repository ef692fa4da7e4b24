// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/dims.hpp"
#include "model/norm.hpp"
#include "tensor/arena.hpp"

namespace shard8::model {

/// Final norm, vocabulary-parallel head and cross entropy. Forward and backward go chunk by chunk of
/// tokens, so that only a chunk's logits of this rank's vocabulary exist at a time.
class LossHead {
 public:
  LossHead(const Dims& dims, int tensor_rank);

  struct Weights {
    Affine norm;
    tensor::Tensor head;  ///< (vocab_local, H)
  };
  struct Gradients {
    Affine norm;
    tensor::Tensor head;
    bool accumulate = false;  ///< head holds something of this step
  };
  struct Scratch {
    NormStatistics statistics;
    tensor::Tensor normed;             ///< (T_local, H)
    tensor::Tensor dnormed;            ///< (T_local, H)
    tensor::Tensor gathered, partial;  ///< (tokens, H), with more than one tensor rank; as linears have them
    tensor::Tensor logits, dlogits;    ///< (chunk, vocab_local) fp32, and in the compute dtype
    tensor::Tensor row_max, sums;      ///< (chunk), (2·chunk) fp32
  };
  /// All but those that linears have, too.
  static Scratch allocate_scratch(const Dims& dims, tensor::Arena& arena);

  /// What is learned from: (tokens) i32 and fp32.
  struct Targets {
    tensor::Tensor ids, weights;
  };

  /// loss (a double as 8 bytes of u8) += Σ weight·(−log p(target)) over the micro-batch, the same on all
  /// tensor ranks. dx (T_local, H) is the gradient of scale·Σ; dw is added to. Times itself as forward
  /// and backward.
  void forward_backward(const Context& context, const tensor::Tensor& loss, const tensor::Tensor& dx,
                        const Gradients& dw, const tensor::Tensor& x, const Targets& targets, const Weights& w,
                        const Scratch& scratch, float scale) const;

 private:
  void chunk_loss(const Context& context, const tensor::Tensor& loss, const tensor::Tensor& logits,
                  const tensor::Tensor& row_max, const tensor::Tensor& sums, const tensor::Tensor& x,
                  const Targets& targets, const Weights& w) const;
  Norm norm_;
  VocabRange range_;
  std::int64_t chunk_;
};

}  // namespace shard8::model

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "model/context.hpp"
#include "model/dims.hpp"
#include "model/head_input.hpp"
#include "model/norm.hpp"
#include "model/sequence_parallel.hpp"
#include "tensor/arena.hpp"

namespace shard8::model {

/// Vocabulary-parallel embedding of the tokens of a micro-batch, with learned positions for gpt2. Each rank looks up
/// the rows that it owns, and a reduce-scatter gives it the sums of its own tokens (sequence parallelism).
class Embedding {
 public:
  Embedding(const Dims& dims, int tensor_rank);

  struct Weights {
    tensor::Tensor table;      ///< (vocab_local, H)
    tensor::Tensor positions;  ///< (seq, H), or empty
  };
  struct Scratch {
    tensor::Tensor gathered;  ///< (tokens, H); empty with one tensor rank
  };

  /// Writes x (T_local, H) for tokens (tokens) i32, all tokens of the micro-batch. Collective over the tensor group.
  void forward(const Context& context, const tensor::Tensor& x, const tensor::Tensor& tokens, const Weights& w,
               const Scratch& scratch) const;
  /// Begins to gather dx (T_local, H), which must not change until backward(). `hidden`: overlapped with other kernels.
  /// Collective over the tensor group.
  Gathering begin_backward(const Context& context, const tensor::Tensor& dx, const Scratch& scratch,
                           bool hidden = true) const;
  /// Adds the gradient of dx (T_local, H) to dw.table and dw.positions, both fp32. dw.table gets all tokens;
  /// dw.positions gets only this rank's, so the caller has to sum it over the tensor group. `begun` is
  /// what begin_backward returned, if the caller has called it; otherwise this call begins the gather. Collective over
  /// the tensor group.
  void backward(const Context& context, const Weights& dw, const tensor::Tensor& dx, const tensor::Tensor& tokens,
                const Scratch& scratch, std::optional<Gathering> begun = {}) const;

 private:
  VocabRange range_;
  std::int64_t seq_, first_token_;
};

/// Final norm, vocabulary-parallel head and cross entropy. Forward and backward run on one chunk of tokens after the
/// other, so that only the logits of one chunk, for this rank's vocabulary rows, are in memory at a time.
class LossHead {
 public:
  LossHead(const Dims& dims, int tensor_rank);

  struct Weights {
    Affine norm;
    tensor::Tensor head;  ///< (vocab_local, H)
  };
  /// Gradients of the tensors of Weights, in fp32 and of the same shapes.
  struct Gradients {
    Affine norm;
    tensor::Tensor head;
    bool accumulate = false;  ///< `head` already holds a sum of this step, which is added to; else it is overwritten
  };
  struct Scratch {
    NormStatistics statistics;
    tensor::Tensor normed;             ///< (T_local, H)
    tensor::Tensor dnormed;            ///< (T_local, H)
    tensor::Tensor gathered, partial;  ///< (tokens, H), those of LinearScratch; not used with one tensor rank
    tensor::Tensor logits, dlogits;    ///< (chunk, vocab_local) fp32, and in the compute dtype
    tensor::Tensor row_max, sums;      ///< (chunk), (2·chunk) fp32
    tensor::Tensor own;                ///< u8: the memory of all members but `gathered` and `partial`
  };
  /// All members but `gathered` and `partial`.
  static Scratch allocate_scratch(const Dims& dims, tensor::Arena& arena);

  /// Target tokens and their weights in the loss: (tokens) i32 and (tokens) fp32.
  struct Targets {
    tensor::Tensor ids, weights;
  };

  /// Adds S = Σ weight·(−log p(target)) over the micro-batch to `loss`, a double as 8 bytes of u8; S is the same on all
  /// tensor ranks. Writes dx (T_local, H), the gradient of scale·S. Adds to dw.norm, and writes dw.head or adds to it
  /// (dw.accumulate). Writes the sum of x (T_local, H) if x is still partial sums. Collective over the tensor group. It
  /// enters the phases forward and backward itself.
  void forward_backward(const Context& context, const tensor::Tensor& loss, const tensor::Tensor& dx,
                        const Gradients& dw, HeldSum x, const Targets& targets, const Weights& w,
                        const Scratch& scratch, float scale) const;
  /// Forward alone: adds S to `loss`, as forward_backward() does. `scratch` has the logits of the last chunk
  /// afterwards. Collective over the tensor group.
  void forward(const Context& context, const tensor::Tensor& loss, HeldSum x, const Targets& targets, const Weights& w,
               const Scratch& scratch) const;

 private:
  /// Where and how backward writes.
  struct Backward {
    const tensor::Tensor& dx;
    const Gradients& dw;
    float scale;
  };
  /// Forward, and if `backward` is not null backward as well.
  void compute(const Context& context, const tensor::Tensor& loss, HeldSum x, const Targets& targets, const Weights& w,
               const Scratch& scratch, const Backward* backward) const;
  void chunk_loss(const Context& context, const tensor::Tensor& loss, const tensor::Tensor& logits,
                  const tensor::Tensor& row_max, const tensor::Tensor& sums, const Targets& targets) const;
  Norm norm_;
  VocabRange range_;
  HeadChunks chunks_;
  TensorExchange gather_, scatter_;
};

}  // namespace shard8::model

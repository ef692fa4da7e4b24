// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>

#include "model/dims.hpp"
#include "model/products.hpp"
#include "model/sequence_parallel.hpp"
#include "tensor/arena.hpp"

namespace shard8::model {

/// How the head cuts the tokens of a micro-batch into chunks. The logits of one chunk are in memory at a time. In a
/// group of several ranks a chunk has all tokens of one or more ranks, or a part of the tokens of one.
struct HeadChunks {
  std::int64_t tokens = 0, local = 0;  ///< Dims::tokens(), Dims::tokens_local()
  std::int64_t most = 0;               ///< tokens of the largest chunk

  static HeadChunks make(const Dims& dims);

  /// Tokens of the chunk that begins with token `first`.
  std::int64_t size(std::int64_t first) const {
    const std::int64_t end = most < local ? (first / local + 1) * local : tokens;
    return std::min(most, end - first);
  }
  /// Whether the chunk is the last one.
  bool last(std::int64_t first) const { return first + size(first) == tokens; }
  /// Tokens of each rank that a direct gather of the head's input brings first: those that the first chunk needs.
  std::int64_t gathered_first() const { return std::min(most, local); }
  /// Whether a device whose gathers are direct writes each rank's tokens where they are gathered. If the first gather
  /// brings only a part of them, a norm then computes each part by itself. The parts are multiples of 128 tokens, so
  /// that the norm's kernels compute them as they compute all tokens at once.
  bool normed_in_place() const { return gathered_first() == local || (most % 128 == 0 && local % 128 == 0); }
  /// Tokens in a product of one rank's tokens, for a chunk of `n` tokens.
  std::int64_t of_a_rank(std::int64_t n) const { return std::min(n, local); }
};

/// The head's input of all tokens, gathered from the tensor group, as the head's chunks read it.
///
/// With the methods direct and ring two gathers begin at once. The first one brings the tokens of each rank that the
/// first chunk needs (HeadChunks::gathered_first); they are multiplied as they arrive. The second one brings the other
/// tokens, if there are any, while the first chunk is computed. Later chunks cannot follow the order of arrival: each
/// rank has a part of the vocabulary, so all ranks compute the same tokens at the same time.
class HeadInput {
 public:
  /// Multiplies tokens x (k, H) of a chunk, which are rows `row` … `row` + k − 1 of it.
  using Multiply = std::function<void(std::int64_t row, const tensor::Tensor& x)>;

  /// This rank's tokens: those of the first gather, and the others.
  struct Own {
    tensor::Tensor first, others;
  };
  /// Where to write this rank's tokens (T_local, H) before they are gathered into `whole` (tokens, H): in `whole`
  /// itself on devices whose exchange is not off, if HeadChunks::normed_in_place(). A copy there would wait until the
  /// device's multiprocessors are free of products. Otherwise in `local` (T_local, H), where the tokens lie one behind
  /// the other.
  static Own own(const Context& context, const TensorExchange& exchange, const HeadChunks& chunks,
                 const tensor::Tensor& whole, const tensor::Tensor& local);

  /// Gathers `own` into `whole` (tokens, H), which the caller holds. Unless the exchange is off, the gathers only
  /// begin; then `own` must not change until the second chunk is computed. With one tensor rank `whole` is not used.
  HeadInput(const Context& context, const TensorExchange& exchange, const HeadChunks& chunks,
            const tensor::Tensor& whole, const Own& own);

  /// Passes every token of the chunk that begins with token `first` once. Called for each chunk, in order. On hosts x
  /// has tokens of one rank, whatever the method is, so that the method does not change the bits of the products.
  void forward(const Context& context, std::int64_t first, const Multiply& multiply);
  /// The tokens (n, H) of the chunk for which forward() was called last.
  tensor::Tensor chunk(std::int64_t first) const { return whole_.slice(place(first), chunks_.size(first)); }

 private:
  void forward_as_they_arrive(const Context& context, const Multiply& multiply);
  /// The row of `whole_` in which a token lies.
  std::int64_t place(std::int64_t token) const;

  HeadChunks chunks_;
  int splits_;
  tensor::Tensor whole_;
  std::int64_t first_;                     ///< tokens of each rank at the beginning of whole_; the others follow
  std::optional<GatheringByParts> parts_;  ///< of these tokens
  std::optional<Gathering> others_;
};

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
  /// (dw.accumulate). Writes the sum of x (T_local, H) if x is still partial sums. Collective over the tensor group.
  /// The function enters the phases forward and backward itself.
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

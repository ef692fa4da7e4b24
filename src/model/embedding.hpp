// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "model/context.hpp"
#include "model/dims.hpp"
#include "model/sequence_parallel.hpp"

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

}  // namespace shard8::model

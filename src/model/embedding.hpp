// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/context.hpp"
#include "model/dims.hpp"

namespace shard8::model {

/// Vocabulary-parallel embedding of all tokens of a micro-batch, scattered over tokens (sequence
/// parallelism); with learned positions for gpt2.
class Embedding {
 public:
  Embedding(const Dims& dims, int tensor_rank);

  struct Weights {
    tensor::Tensor table;      ///< (vocab_local, H)
    tensor::Tensor positions;  ///< (seq, H), or empty
  };
  struct Scratch {
    tensor::Tensor gathered;  ///< (tokens, H), with more than one tensor rank
  };

  /// x (T_local, H) of tokens (tokens) i32.
  void forward(const Context& context, const tensor::Tensor& x, const tensor::Tensor& tokens, const Weights& w,
               const Scratch& scratch) const;
  /// Adds to the fp32 gradients of both tables. That of the positions is this rank's tokens' part,
  /// to be summed over the tensor group.
  void backward(const Context& context, const Weights& dw, const tensor::Tensor& dx, const tensor::Tensor& tokens,
                const Scratch& scratch) const;

 private:
  VocabRange range_;
  std::int64_t seq_, first_token_;
};

}  // namespace shard8::model

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fsdp/weight_store.hpp"
#include "tensor/operand.hpp"

namespace shard8::model {

/// Weight and bias of a norm, or gradients of those of a norm or linear layer; bias is empty where
/// the architecture has none.
struct Affine {
  tensor::Tensor weight, bias;
};

/// Gradients (fp32) and whether they already hold something of this step. Biases and norm weights
/// are always added to.
struct AffineGradient {
  Affine sum;
  bool accumulate = false;
};

/// A gathered weight as products read it: the forward product its rows, dgrad its columns. Plain, or
/// in FP8; of two copies only that of the current pass is there.
struct Weight {
  tensor::Operand forward, backward;
  fsdp::CopyStamp stamp;

  Weight() = default;
  Weight(const tensor::Tensor& plain) : forward(plain), backward(plain) {}  // NOLINT: plain serves both
  Weight(const tensor::Operand& by_rows, const tensor::Operand& by_columns, const fsdp::CopyStamp& gathered)
      : forward(by_rows), backward(by_columns), stamp(gathered) {}
  /// The plain tensor of one that is not in FP8: norms, biases, tables.
  const tensor::Tensor& plain() const { return forward.data; }
};

/// Weight and bias of a linear layer.
struct LinearWeights {
  Weight weight;
  tensor::Tensor bias;
};

}  // namespace shard8::model

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tensor/tensor.hpp"

namespace shard8::model {

/// Weight and bias of a linear layer or a norm, or their gradients; bias is empty where the
/// architecture has none.
struct Affine {
  tensor::Tensor weight, bias;
};

/// Gradients (fp32) and whether they already hold something of this step. Biases and norm weights
/// are always added to.
struct AffineGradient {
  Affine sum;
  bool accumulate = false;
};

}  // namespace shard8::model

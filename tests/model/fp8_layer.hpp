// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <vector>

#include "model/transformer_layer.hpp"
#include "tests/model/fp8_module.hpp"
#include "tests/model/reference/layer.hpp"

namespace shard8::tests {

/// A layer's memory on this rank, laid out as in a run.
struct Fp8Layer {
  Fp8Layer(Fp8Module& m, deck::Recompute recompute);
  /// Gives every linear memory of its own for both copies of its input, so that they can be seen.
  void keep_all_inputs(Fp8Module& m);

  model::TransformerLayer::Weights weights;
  std::vector<tensor::Tensor> gradient_tensors;
  model::TransformerLayer::Gradients gradients;
  model::TransformerLayer::Shared shared;
  model::TransformerLayer::Saved saved;
  model::TransformerLayer::Scratch scratch;
};

/// The modules of a layer, alone or one after the other.
struct Parts {
  bool attention = true, mlp = true;
};

/// One forward and backward of a layer's modules on this rank, and what they cast.
class Fp8Run {
 public:
  Fp8Run(Fp8Module& m, const Fp8Layer& layer, Parts parts, unsigned seed);

  /// Results, input gradient and the parts' weight gradients are those of the reference,
  /// which goes on with the casts that were seen.
  void expect_reference(const Fp8Module& m) const;

  Matrix x, dy;          ///< whole
  tensor::Tensor my_x;   ///< this rank's tokens
  tensor::Tensor y, dx;  ///< of this rank's tokens
  const Fp8Layer& layer;

 private:
  reference::LinearCasting casting(const Fp8Module& m, fp8::Linear linear) const;

  Parts parts_;
  std::array<Fp8Module::Seen, fp8::kLinears> inputs_, gradients_;
  Matrix middle_gradient_;  ///< whole: of the MLP's input, which is the gradient of proj's output
};

/// Forward and backward of a step before, with other numbers, and its end; then all is as new.
void step_before(Fp8Module& m, Parts parts);

}  // namespace shard8::tests

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <vector>

#include "model/activations.hpp"
#include "tests/model/fp8_module.hpp"
#include "tests/model/reference/reference.hpp"

namespace shard8::tests {

/// A layer's memory on this rank, laid out as in a run.
struct Fp8Layer {
  Fp8Layer(Fp8Module& m, deck::Recompute recompute);
  /// Gives every linear memory of its own for both copies of its input, so that the test can read them.
  void keep_all_inputs(Fp8Module& m);

  model::TransformerLayer::Weights weights;
  std::vector<tensor::Tensor> gradient_tensors;
  model::TransformerLayer::Gradients gradients;
  model::TransformerLayer::Scratch scratch;
  model::TransformerLayer::Saved saved;
};

/// The modules of a layer that run: one of them, or both one after the other.
struct Parts {
  bool attention = true, mlp = true;
};

/// One forward and backward of a layer's modules on this rank, and the casts that they made.
class Fp8Run {
 public:
  Fp8Run(Fp8Module& m, const Fp8Layer& layer, Parts parts, unsigned seed);

  /// Expects the reference's results, input gradient and weight gradients. The reference computes with the casts that
  /// the modules made.
  void expect_reference(const Fp8Module& m) const;

  Matrix x, dy;          ///< whole
  tensor::Tensor my_x;   ///< this rank's tokens
  tensor::Tensor y, dx;  ///< this rank's tokens
  const Fp8Layer& layer;

 private:
  reference::LinearCasting casting(const Fp8Module& m, fp8::Linear linear) const;

  Parts parts_;
  std::array<Fp8Module::Seen, fp8::kLinears> inputs_, gradients_;
  Matrix middle_gradient_;  ///< whole: the gradient of the MLP's input, which is that of proj's output
};

/// Runs forward, backward and the end of an earlier step, with other numbers. Only the scaling state remembers it.
void step_before(Fp8Module& m, Parts parts);

}  // namespace shard8::tests

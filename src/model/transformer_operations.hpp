// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/module_operations.hpp"
#include "model/unit_operations.hpp"

namespace shard8::model {

/// Writes what Transformer::forward_backward does with sharded weights. Mirrors it.
class TransformerOperations {
 public:
  TransformerOperations(OperationWriter& out, const deck::ModelConfig& model, const fp8::Recipe& recipe,
                        ModuleOperations& modules, WeightOperations& weights, GradientOperations& gradients);

  /// Of the micro-batch that is the first or the last of its step.
  void forward_backward(bool first, bool last);

 private:
  void forward_embedding();
  void forward_layers();
  void head(bool first, bool last);
  void backward_layers(bool first, bool last);
  void backward_embedding(bool first, bool last);

  OperationWriter& out_;
  deck::ModelConfig model_;
  fp8::Recipe recipe_;
  ModuleOperations& modules_;
  WeightOperations& weights_;
  GradientOperations& gradients_;
};

}  // namespace shard8::model

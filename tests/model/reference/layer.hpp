// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "deck/config.hpp"
#include "fp8/recipe.hpp"
#include "tests/model/reference/operations.hpp"

namespace shard8::tests::reference {

struct Affine {
  Var weight = nullptr, bias = nullptr;
};

/// The parameters of a transformer layer, from those of its unit in the order of model::make_units.
struct Layer {
  Affine norm1, qkv, proj, norm2, fc1, fc2;
  Var q_norm = nullptr, k_norm = nullptr;  ///< null: queries and keys are not normalised
  static Layer bind(const deck::ModelConfig& model, const std::vector<Var>& v);
};

/// How a linear of the layer is computed: in plain arithmetic, or with the casts of a recipe.
using LinearOperation = std::function<Var(Graph&, Var x, const Affine& w, fp8::Linear which)>;
Var plain_linear(Graph& graph, Var x, const Affine& w, fp8::Linear which);

Var norm(Graph& graph, const deck::ModelConfig& model, Var x, const Affine& w);
Var layernorm_linear(Graph& graph, const deck::ModelConfig& model, Var x, const Affine& norm_w, const Affine& linear_w,
                     fp8::Linear which = fp8::Linear::qkv, const LinearOperation& linear = plain_linear);
Var multihead_attention(Graph& graph, const deck::ModelConfig& model, Var x, const Layer& w,
                        const LinearOperation& linear = plain_linear);
Var layernorm_mlp(Graph& graph, const deck::ModelConfig& model, Var x, const Layer& w,
                  const LinearOperation& linear = plain_linear);

}  // namespace shard8::tests::reference

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "deck/config.hpp"
#include "tests/model/reference/operations.hpp"

namespace shard8::tests::reference {

struct Affine {
  Var weight = nullptr, bias = nullptr;
};

/// A transformer layer's parameters, from a unit's in the order of model::make_units.
struct Layer {
  Affine norm1, qkv, proj, norm2, fc1, fc2;
  static Layer bind(deck::Arch arch, const std::vector<Var>& v);
};

Var norm(Graph& graph, const deck::ModelConfig& model, Var x, const Affine& w);
Var layernorm_linear(Graph& graph, const deck::ModelConfig& model, Var x, const Affine& norm_w, const Affine& linear_w);
Var multihead_attention(Graph& graph, const deck::ModelConfig& model, Var x, const Layer& w);
Var layernorm_mlp(Graph& graph, const deck::ModelConfig& model, Var x, const Layer& w);

}  // namespace shard8::tests::reference

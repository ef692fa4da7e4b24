// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "model/embedding.hpp"
#include "model/loss_head.hpp"
#include "model/transformer_layer.hpp"
#include "tensor/arena.hpp"

namespace shard8::model {

/// All memory of one micro-batch for activations and scratch. It is laid out once and used for every micro-batch.
/// T_local = Dims::tokens_local(), tokens = Dims::tokens(), H = hidden; tensors are in the compute dtype unless they
/// say otherwise.
struct Activations {
  std::vector<tensor::Tensor> residual;  ///< layers + 1 tensors (T_local, H): inputs of the layers and of the root
  std::vector<TransformerLayer::Saved> layers;  ///< one a layer
  std::vector<tensor::Tensor> kept;  ///< one a layer, u8: the bytes of its input and of what only this layer saves
  TransformerLayer::Scratch layer_scratch;
  Embedding::Scratch embedding_scratch;
  LossHead::Scratch head_scratch;
  tensor::Tensor dresidual;                       ///< (T_local, H), gradient of the residual stream
  tensor::Tensor tokens, targets, token_weights;  ///< (tokens) i32, i32, fp32
  tensor::Tensor rope_table;                      ///< (2, seq, head_dim/2) fp32, llama
  tensor::Tensor loss;       ///< sum of weight·loss over this step's micro-batches so far: a double as 8 bytes of u8
  tensor::Tensor workspace;  ///< u8: the memory of Context::workspace

  /// Takes all of it from `arenas`: what is kept from forward to backward from the kind activations, what tensor ranks
  /// exchange from exchanged, the rest from buffers. Nothing is filled. `layers`: layers of the model. `workspace`: its
  /// bytes.
  static Activations allocate(const Dims& dims, std::int64_t layers, deck::Recompute recompute,
                              const fp8::Recipe& recipe, std::size_t workspace, tensor::ArenaSet& arenas);
};

}  // namespace shard8::model

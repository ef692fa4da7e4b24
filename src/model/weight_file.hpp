// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "deck/config.hpp"
#include "io/tensor_file.hpp"
#include "model/parameters.hpp"

namespace shard8::model {

/// The name in the file of the tensor from which `source` is read; some GPT-2 checkpoints omit the prefix
/// "transformer.". `vector`: the parameter has one dimension. Error(deck), with names and shapes, if the file has no
/// such tensor or it has another shape. A table of positions may be longer than needed.
std::string name_in(const io::TensorFile& file, const SourceBox& source, bool vector);

/// Error(deck) unless the file has every tensor of the model with its shape, and no layers beyond model.layers. The
/// message shows the first tensor that does not fit, and how many there are. Reads no values.
void check_tensors(const io::TensorFile& file, const deck::ModelConfig& model);

}  // namespace shard8::model

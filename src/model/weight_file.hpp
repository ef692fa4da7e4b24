// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "deck/config.hpp"
#include "io/tensor_file.hpp"
#include "model/parameters.hpp"

namespace shard8::model {

/// The name in the file of the tensor from which `source` is read; some GPT-2 checkpoints omit the prefix
/// "transformer.". `vector`: the parameter has one dimension. Error(deck), with names and shapes, if the file has no
/// such tensor, it cannot be read, or it has another shape. A table of positions may be longer than needed.
std::string name_in(const io::TensorFile& file, const SourceBox& source, bool vector);

/// Compares the tensors of a file with those of the model. Returns the names of tensors that will not be read and that
/// have no name of a model's tensor, such as an optimizer's; masks and frequencies that Transformers keeps as buffers
/// are not among them. Values are read only to compare a head with the table to which it is tied.
///
/// Error(deck), with the first names and how many there are, if
/// - the file lacks a tensor of the model, or has it with another shape or with a dtype that cannot be read;
/// - the file has layers beyond model.layers;
/// - the file has other tensors under the names of a model, which would be dropped: biases, experts, further norms;
/// - model.tie_embeddings is true and the file has a head with other values than the table.
[[nodiscard]] std::vector<std::string> check_tensors(const io::TensorFile& file, const deck::ModelConfig& model);

}  // namespace shard8::model

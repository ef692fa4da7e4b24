// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fsdp/unit_buffers.hpp"
#include "io/tensor_file.hpp"
#include "model/parameters.hpp"
#include "tensor/exec.hpp"

namespace shard8::model {

/// Fills this rank's master shards (and remainders) from `file`, which has Hugging Face's names and layouts, or with
/// random values if `file` is null. Padding rows are zero. This rank reads or draws only the rows that it owns, so no
/// rank ever holds a whole model, and every mesh starts from the same values. Communicates nothing. Names may lack the
/// prefix "transformer."; of a table of positions longer than seq the first rows are read. With master_remainder it
/// overwrites the gradient shards. Throws Error(deck) with name and shapes if a tensor is missing or has another shape,
/// and the errors of TensorFile::read_box.
void initialise(const tensor::Exec& exec, const fsdp::UnitBuffers& buffers, const std::vector<UnitSpec>& units,
                std::uint64_t seed, const io::TensorFile* file);

}  // namespace shard8::model

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fsdp/unit_buffers.hpp"
#include "io/tensor_file.hpp"
#include "model/parameters.hpp"
#include "tensor/exec.hpp"

namespace shard8::model {

/// Fills this rank's master shards: from `file` (Hugging Face names and layouts), or at random when
/// it is null. Only what this rank owns is read or drawn, so no rank ever holds a whole model, and
/// every mesh starts from the same values. Padding rows are zero. Errors name tensor and shapes.
void initialise(const tensor::Exec& exec, const fsdp::UnitBuffers& buffers, const std::vector<UnitSpec>& units,
                int shard_rank, std::uint64_t seed, const io::TensorFile* file);

}  // namespace shard8::model

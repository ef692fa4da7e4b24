// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "io/tensor_file.hpp"

namespace shard8::io {

// The format (github.com/huggingface/safetensors, "Format"): the header's length as a 64-bit
// little-endian integer, the header in JSON, {"name": {"dtype", "shape", "data_offsets"}, ...},
// then the bytes of all tensors, row-major, without overlaps or holes. Whatever breaks these rules
// is Error(failed) on opening.

/// One .safetensors file.
std::unique_ptr<TensorFile> open_safetensors(const std::string& path);

/// A checkpoint in several files: `path` is its .index.json, with "weight_map": {name: file}. The
/// files lie beside it and stay open.
std::unique_ptr<TensorFile> open_safetensors_index(const std::string& path);

}  // namespace shard8::io

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "io/input_file.hpp"

namespace shard8::io {

/// What a .safetensors header says of a tensor, checked against the file.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::int64_t first = 0;  ///< its first byte in the file
  std::int64_t bytes = 0;
};

/// Reads and checks the whole header: length, JSON, duplicate names, shapes, dtypes against sizes,
/// offsets against the file, overlaps and holes. Error(failed) names file and tensor.
std::vector<SafetensorsEntry> read_safetensors_header(const InputFile& file);

}  // namespace shard8::io

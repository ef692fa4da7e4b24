// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/reader.hpp"

namespace shard8::test {

/// The lines of metrics.jsonl without the times: step, loss, grad_norm, lr, tokens. A last line that was cut is left
/// out.
std::vector<std::string> metrics_of(const std::filesystem::path& file);

/// The first difference between two lists of lines as text; empty if there is none.
std::string difference_of_lines(const std::vector<std::string>& got, const std::vector<std::string>& wanted);

/// All bytes of a tensor of a checkpoint, row-major.
std::vector<std::byte> bytes_of(checkpoint::Reader& reader, const checkpoint::ManifestTensor& tensor);

/// The tensors of a checkpoint: "NAME, CONTENT" to dtype, shape and a digest of all bytes, in row-major order of the
/// whole tensor. Every byte of every file is checked. Error(checkpoint) if one is damaged.
std::map<std::string, std::string> tensors_of(const std::filesystem::path& checkpoint);

/// The first difference between the tensors of two checkpoints as text; empty if there is none.
std::string difference_of_tensors(const std::map<std::string, std::string>& got,
                                  const std::map<std::string, std::string>& wanted);

/// The checkpoint in a folder of checkpoints from which a run must go on: the last one written, of which every byte is
/// checked; empty if there is no checkpoint. Error(checkpoint) if it is damaged.
std::string newest_checkpoint(const std::filesystem::path& folder);

/// The folder that the header's line `restart    from` names; empty if there is no such line.
std::string restarted_from(const std::string& output);

/// The digests of all files in a folder and below, by path.
std::map<std::string, std::string> digests_of(const std::filesystem::path& folder);

}  // namespace shard8::test

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "deck/config.hpp"

namespace shard8::deck {

/// The file in output.dir that says to which training the other files there belong.
inline constexpr const char* kTrainingFile = "training.json";

/// A file that a run writes into output.dir.
struct WrittenFile {
  std::string_view key;  ///< of the deck, "output.summary", or what the file is called for a name that no key changes
  std::string name;      ///< in output.dir; of output.trace the key's value: see base::rank_file_name()
  bool has_key() const { return key.starts_with("output."); }
  bool is_trace() const { return key == "output.trace"; }
};

/// Every file that some run of these keys writes into output.dir, those with keys first. Whoever adds a file to runs
/// adds it here: what may not be overwritten, what `check` looks at and what `check --files` prints come from this
/// list.
std::vector<WrittenFile> written_files(const OutputConfig& output);

/// The files that runs of `config`, which has no errors, write into output.dir and leave there.
std::vector<WrittenFile> written_files(const Config& config);

/// Whether the name is that of a file in output.dir: no path, and neither "." nor "..".
bool is_file_name(std::string_view name);
/// Whether a run itself uses the name in output.dir: training.json and the lock, which say whose the folder is, and the
/// folders replaced_N, to which it moves another training's files.
bool is_reserved(std::string_view name);
/// Whether checkpoints use the name in their folder.
bool is_name_of_checkpoints(std::string_view name);

/// The folder below output.dir that a run takes for checkpoint.dir if it is there; nothing for a deck that names a
/// folder of checkpoints, or from where to restart.
std::optional<std::filesystem::path> default_checkpoint_folder(const Config& config);

}  // namespace shard8::deck

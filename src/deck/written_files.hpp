// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "deck/config.hpp"

namespace shard8::deck {

/// In output.dir: whose the other files there are.
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

/// Those that the runs of this deck, which has no errors, write and leave.
std::vector<WrittenFile> written_files(const Config& config);

/// Whether checkpoints use the name in their folder.
bool is_name_of_checkpoints(std::string_view name);

}  // namespace shard8::deck

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// What lies in folders after a run. Files are read as plain JSON, and by none of the program's own code.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shard8::test {

/// The digests of all files in a folder and below, but for locks and what this test writes: by path from the folder.
using Digests = std::map<std::string, std::string>;
Digests digests_below(const std::filesystem::path& folder);

struct SeenCheckpoint {
  std::string run;
  bool has_parent_key = false;
  std::optional<std::pair<std::string, std::int64_t>> parent;
  std::int64_t step = -1, serial = -1;  ///< -1: there is no manifest that can be read
  std::string digest;                   ///< of the names and contents of its files
  bool moved_aside = false;             ///< its folder is step_N.old, and there is no step_N
};

struct SeenFolder {
  std::map<std::int64_t, SeenCheckpoint> checkpoints;
  std::string latest;               ///< empty without such a file
  std::vector<std::string> others;  ///< names that are neither
};
SeenFolder look_at_folder(const std::filesystem::path& folder);

struct SeenLine {
  std::int64_t step = -1;
  double loss = 0;
  std::string run;
};

/// Every whole line of a metrics.jsonl. Throws std::runtime_error for one that is no line of metrics.
std::vector<SeenLine> lines_of(const std::filesystem::path& file);

struct SeenOutput {
  std::vector<SeenLine> lines;
  nlohmann::json training, summary;  ///< null without such a file
};
SeenOutput look_at_output(const std::filesystem::path& folder);

}  // namespace shard8::test

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <system_error>
#include <vector>

namespace shard8::io {

/// Remembers which folders of a path were missing, so that a caller who makes them leaves none behind that stays empty.
/// The constructor makes nothing.
class MadeFolders {
 public:
  explicit MadeFolders(std::filesystem::path folder) {
    std::error_code ignored;
    for (; !folder.empty() &&
           std::filesystem::symlink_status(folder, ignored).type() == std::filesystem::file_type::not_found;
         folder = folder.parent_path())
      missing_.push_back(folder);
  }
  MadeFolders(const MadeFolders&) = delete;
  MadeFolders& operator=(const MadeFolders&) = delete;
  /// Removes those of the folders that are empty.
  ~MadeFolders() {
    std::error_code ignored;
    for (const auto& folder : missing_) std::filesystem::remove(folder, ignored);
  }

 private:
  std::vector<std::filesystem::path> missing_;  ///< deepest first
};

}  // namespace shard8::io

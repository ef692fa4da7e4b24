// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace shard8::base {

/// The name path.tmp, which a file has until it is complete.
inline std::string temporary_of(const std::string& path) { return path + ".tmp"; }

/// Where a link leads to that leads to nothing; nothing for another path. Such a link is neither there nor can a folder
/// be made in its place.
inline std::optional<std::string> end_of_broken_link(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error) || std::filesystem::exists(path, error)) return std::nullopt;
  return std::filesystem::read_symlink(path, error).string();
}

/// Makes a folder and those above it. Processes that remove empty folders, as MadeFolders does, may run at the same
/// time: a folder that vanished meanwhile is made again.
inline std::error_code make_folders(const std::filesystem::path& folder) {
  constexpr int kAttempts = 100;  // chosen; each one more means that another process removed a folder just now
  std::error_code error;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::filesystem::create_directories(folder, error);
    // "No such file" also tells that a parent is no place for folders, such as /proc: then each attempt says so.
    if (error != std::errc::no_such_file_or_directory) break;
  }
  return error;
}

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

}  // namespace shard8::base

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace shard8::base {

/// What is at a path, links followed. `why` says why that cannot be found out; the kind is `none` then. Functions of
/// std::filesystem are called with an error_code: their exceptions have neither an exit code nor advice.
struct FileKind {
  std::filesystem::file_type type = std::filesystem::file_type::none;
  std::string why{};

  bool is_there() const {
    return type != std::filesystem::file_type::none && type != std::filesystem::file_type::not_found;
  }
  bool is_folder() const { return type == std::filesystem::file_type::directory; }
  bool is_file() const { return type == std::filesystem::file_type::regular; }
};

inline FileKind kind_of_file(const std::filesystem::path& path) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  return {type, type == std::filesystem::file_type::none ? error.message() : std::string()};
}

/// The names in a folder, ascending; with an error those that were found before it.
inline std::vector<std::string> names_in(const std::filesystem::path& folder, std::error_code& error) {
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace shard8::base

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

// Files and folders that a user names: what is at a path, the text of a file, temporary names, folders that are made
// and removed again, and the names of files of single ranks.

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

/// A text that is open for reading, or why it is not.
struct PlainFile {
  std::ifstream in;
  int error = 0;    ///< errno; 0: open
  std::string why;  ///< in words; empty: open
};

/// Whether a pipe that another process writes to, as the shell's <(COMMAND) makes one, may be read like a file.
enum class Pipes { refused, read };

/// Opens a file for reading. Only a regular file, or such a pipe, is opened: whoever opens a FIFO waits for its writer,
/// and a device need not end. Files that a user names, or that lie in a folder that a user names, are opened by this
/// or by io::InputFile.
PlainFile open_plain(const std::string& path, Pipes pipes = Pipes::refused);

/// The text of a file, or why it cannot be read whole.
struct PlainText {
  std::string text{};
  int error = 0;      ///< errno; 0: the text is whole
  std::string why{};  ///< in words; empty: the text is whole
};
/// Reads a file that open_plain() opens.
PlainText read_plain(const std::string& path, Pipes pipes = Pipes::refused);

/// The name path.tmp, which a file has until it is complete.
inline std::string temporary_of(const std::string& path) { return path + ".tmp"; }

/// The missing target of a broken link; nothing for any other path. A broken link is neither there, nor can a folder be
/// made in its place.
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

/// `name` for a rank: "trace.rank0003.json" for "trace.json".
inline std::string rank_file_name(const std::string& name, int rank) {
  const auto dot = name.rfind('.');
  return fmt::format("{}.rank{:04}{}", name.substr(0, dot), rank, dot == std::string::npos ? "" : name.substr(dot));
}

/// The rank for which `file` is rank_file_name() of `name`; nothing for any other file.
inline std::optional<int> rank_of_file_name(const std::string& file, const std::string& name) {
  const std::string begin = name.substr(0, name.rfind('.')) + ".rank";
  if (!file.starts_with(begin)) return std::nullopt;
  int rank = 0;
  std::from_chars(file.data() + begin.size(), file.data() + file.size(), rank);
  if (rank < 0 || rank_file_name(name, rank) != file) return std::nullopt;
  return rank;
}

}  // namespace shard8::base

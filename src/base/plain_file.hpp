// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Files that a user names, or that lie in a folder that a user names: what they are, and their text.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
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

}  // namespace shard8::base

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>

namespace shard8::profile {

/// A text file that a run writes; its folder is made if need be. Every call throws
/// Error(environment) with the path, the system's reason and what to do when it fails.
class OutputFile {
 public:
  /// Replaces what is there.
  explicit OutputFile(std::filesystem::path path);
  /// Closes; close() is what reports errors.
  ~OutputFile() = default;
  OutputFile(OutputFile&&) noexcept = default;
  OutputFile& operator=(OutputFile&&) noexcept = default;

  /// Handed to the system before it returns.
  void write(std::string_view text);
  void close();
  const std::filesystem::path& path() const { return path_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
};

/// Throws as OutputFile if a file could not be written, and leaves all as it is: links, too, and no folder is made.
void require_writable(const std::filesystem::path& path);

/// Removes the file, of a link what it leads to; one that cannot be removed is emptied, or OutputFile throws.
/// Devices stay.
void remove_output(const std::filesystem::path& path);

}  // namespace shard8::profile

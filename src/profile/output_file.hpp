// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/plain_file.hpp"

namespace shard8::profile {

/// The remedy for a file in output.dir.
inline constexpr const char* kOutputRemedy = "set output.dir to";

/// A text file that a run writes. Every call throws Error(environment) with the path, the system's reason and what to
/// do. Folders that are missing are made.
class OutputFile {
 public:
  enum class Existing {
    replaced,   ///< the path has its old content, or no file, until close(): a process that is killed leaves no part
    continued,  ///< the text goes to the end of the file that is there, or of a new one
  };
  /// `remedy` begins the advice in errors, which goes on "a folder that can be written to and has room". A replaced
  /// file is written as PATH.tmp until close(). If PATH is a link, the .tmp file lies in the folder of the link's
  /// target. Devices and FIFOs are written to directly.
  explicit OutputFile(std::filesystem::path path, Existing existing = Existing::replaced,
                      std::string remedy = kOutputRemedy);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  /// Without close(), a file that was to be replaced stays as it was.
  ~OutputFile();

  /// Passes the text to the system before it returns.
  void write(std::string_view text);
  void close();

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  std::filesystem::path path_;
  std::filesystem::path target_;   ///< what is written in the end: `path_`, or what it links to
  std::filesystem::path written_;  ///< what is written now: `target_`, or target_.tmp
  std::string remedy_;
  std::unique_ptr<std::FILE, Close> file_;
};

/// Writes a file of this text, replacing one that is there. Throws the errors of OutputFile.
void write_output(const std::filesystem::path& path, std::string_view text, const std::string& remedy = kOutputRemedy);

/// Makes the folders of a file that are missing. The destructor removes those of them that are empty. The constructor
/// throws the error of OutputFile.
///
/// Processes that call require_writable() for files of one folder at the same time hold such an object each, until all
/// have called it: otherwise one of them removes the folder that another one is about to write to.
class FoldersForCheck {
 public:
  explicit FoldersForCheck(const std::filesystem::path& file, const std::string& remedy = kOutputRemedy);

 private:
  base::MadeFolders made_;
};

/// Throws the error of OutputFile if the file cannot be written. Changes nothing: the file, its links and its folders
/// are as before. A process that is killed meanwhile leaves an empty PATH.tmp at most, which the next writer replaces.
void require_writable(const std::filesystem::path& path, const std::string& remedy = kOutputRemedy);

/// A file of a command line, and the word that names it there: "--json", "the deck".
struct NamedFile {
  std::string what;
  std::filesystem::path path;
};

/// Error(deck), which begins with `command`, if a file that the command writes is one that it reads, or if two that it
/// writes are one, whatever links lead to them.
void require_distinct(std::string_view command, const std::vector<NamedFile>& written,
                      const std::vector<NamedFile>& read);

/// Removes a regular file; for a link, the file that the link points to. A file that cannot be removed is emptied; if
/// this fails too, throws the error of OutputFile. Devices and FIFOs stay.
void remove_output(const std::filesystem::path& path);

}  // namespace shard8::profile

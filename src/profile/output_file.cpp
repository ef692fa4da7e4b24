// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/output_file.hpp"

#include <cerrno>
#include <cstring>
#include <map>
#include <system_error>
#include <utility>

#include "base/error.hpp"

namespace shard8::profile {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_with(const fs::path& path, const char* what, const std::string& reason,
                            const std::string& remedy) {
  base::fail(base::ExitCode::environment, "cannot {} '{}': {}; {} a folder that can be written to and has room", what,
             path.string(), reason, remedy);
}

void create_folder_of(const fs::path& path, const std::string& remedy) {
  if (!path.has_parent_path()) return;
  const fs::path folder = path.parent_path();
  if (const auto end = base::end_of_broken_link(folder))
    fail_with(folder, "make folder", fmt::format("it is a link to '{}', which is not there", *end), remedy);
  const std::error_code error = base::make_folders(folder);
  if (error) fail_with(folder, "make folder", error.message(), remedy);
}

/// Opens `path` or, where it is written so, PATH.tmp. Errors name `path`.
std::FILE* open_file(const fs::path& path, const fs::path& written, const char* mode, const std::string& remedy) {
  std::error_code ignored;  // if the type cannot be read, fopen reports why
  if (fs::is_fifo(written, ignored)) fail_with(path, "open for writing", "it is a FIFO", remedy);
  std::FILE* file = nullptr;
  constexpr int kAttempts = 100;  // chosen; each one more means that another run removed the empty folder just now
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    file = std::fopen(written.c_str(), mode);
    if (file != nullptr || errno != ENOENT) break;
    create_folder_of(path, remedy);
    errno = ENOENT;
  }
  if (file == nullptr) fail_with(path, "open for writing", std::strerror(errno), remedy);
  return file;
}

bool is_special(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) && !fs::is_regular_file(path, ignored);
}

/// The file to which a path leads through links, whether or not it is there; the path itself where they lead in a
/// circle.
fs::path behind_links(const fs::path& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error)) return path;
  const fs::path target = fs::weakly_canonical(path, error);
  if (error) return path;
  return fs::is_symlink(target, error) ? behind_links(target.parent_path() / fs::read_symlink(target, error)) : target;
}

/// The path without links. A path that the system cannot follow stays as it is: whoever opens it says why.
fs::path without_links(const fs::path& path) {
  std::error_code error;
  auto canonical = fs::weakly_canonical(fs::absolute(path, error), error);
  return error ? path : canonical;
}

/// The name that a file has until it is complete. A link in a circle keeps its name: the system refuses to open it.
fs::path incomplete(const fs::path& file) {
  std::error_code ignored;
  return fs::is_symlink(file, ignored) ? file : fs::path(base::temporary_of(file.string()));
}

}  // namespace

OutputFile::OutputFile(fs::path path, Existing existing, std::string remedy)
    : path_(std::move(path)), target_(path_), written_(path_), remedy_(std::move(remedy)) {
  create_folder_of(path_, remedy_);
  if (existing == Existing::replaced && !is_special(path_)) {
    target_ = behind_links(path_);
    written_ = incomplete(target_);
  }
  file_.reset(open_file(path_, written_, existing == Existing::replaced ? "w" : "a", remedy_));
}

OutputFile::~OutputFile() {
  if (file_ == nullptr || written_ == target_) return;
  file_.reset();
  std::error_code ignored;
  fs::remove(written_, ignored);
}

void OutputFile::write(std::string_view text) {
  SHARD8_REQUIRE(file_ != nullptr, "'{}' is closed", path_.string());
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size() || std::fflush(file_.get()) != 0) {
    fail_with(path_, "write to", std::strerror(errno), remedy_);
  }
}

void OutputFile::close() {
  if (file_ == nullptr) return;
  errno = 0;
  std::error_code error;
  if (std::fclose(file_.release()) != 0) error = {errno, std::generic_category()};
  if (!error && written_ != target_) fs::rename(written_, target_, error);
  if (!error) return;
  std::error_code ignored;
  if (written_ != target_) fs::remove(written_, ignored);
  fail_with(path_, "close", error.message(), remedy_);
}

void write_output(const fs::path& path, std::string_view text, const std::string& remedy) {
  OutputFile file(path, OutputFile::Existing::replaced, remedy);
  file.write(text);
  file.close();
}

FoldersForCheck::FoldersForCheck(const fs::path& file, const std::string& remedy) : made_(file.parent_path()) {
  create_folder_of(file, remedy);
}

void require_writable(const fs::path& path, const std::string& remedy) {
  const FoldersForCheck folders(path, remedy);
  std::error_code ignored;  // an empty file that cannot be removed does no harm: the run replaces it
  const fs::path written = fs::exists(path, ignored) ? path : incomplete(behind_links(path));
  const bool existed = fs::symlink_status(written, ignored).type() != fs::file_type::not_found;
  std::fclose(open_file(path, written, "a", remedy));
  if (!existed) fs::remove(written, ignored);
}

void require_distinct(std::string_view command, const std::vector<NamedFile>& written,
                      const std::vector<NamedFile>& read) {
  std::map<fs::path, std::string> others;
  for (const NamedFile& file : read) others.emplace(without_links(file.path), file.what);
  for (const NamedFile& file : written)
    if (const auto found = others.find(without_links(file.path)); found != others.end())
      base::fail(base::ExitCode::deck, "{}: {} '{}' would replace {}, which is read: give {} another name", command,
                 file.what, file.path.string(), found->second, file.what);
  std::map<fs::path, std::string> earlier;
  for (const NamedFile& file : written)
    if (const auto [found, is_new] = earlier.emplace(without_links(file.path), file.what); !is_new)
      base::fail(base::ExitCode::deck, "{}: {} and {} are one file, '{}'; give them different names", command,
                 found->second, file.what, file.path.string());
}

void remove_output(const fs::path& path) {
  std::error_code error;
  const fs::path file = fs::canonical(path, error);
  if (error || !fs::is_regular_file(file, error)) return;
  fs::remove(file, error);
  if (error) OutputFile(path).close();
}

}  // namespace shard8::profile

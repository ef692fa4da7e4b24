// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/output_file.hpp"

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/error.hpp"

namespace shard8::profile {
namespace {

[[noreturn]] void fail_with(const std::filesystem::path& path, const char* what, const std::string& reason) {
  base::fail(base::ExitCode::environment,
             "cannot {} '{}': {}; set output.dir to a folder that can be written to and has room", what, path.string(),
             reason);
}

void make_folder_of(const std::filesystem::path& path) {
  if (!path.has_parent_path()) return;
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) fail_with(path.parent_path(), "make folder", error.message());
}

std::FILE* open_file(const std::filesystem::path& path, const char* mode) {
  std::error_code ignored;  // what cannot be looked at cannot be opened either, which is said then
  if (std::filesystem::is_fifo(path, ignored)) fail_with(path, "open for writing", "it is a FIFO");
  std::FILE* const file = std::fopen(path.c_str(), mode);
  if (file == nullptr) fail_with(path, "open for writing", std::strerror(errno));
  return file;
}

}  // namespace

OutputFile::OutputFile(std::filesystem::path path) : path_(std::move(path)) {
  make_folder_of(path_);
  file_.reset(open_file(path_, "w"));
}

void OutputFile::write(std::string_view text) {
  SHARD8_REQUIRE(file_ != nullptr, "'{}' is closed", path_.string());
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size() || std::fflush(file_.get()) != 0) {
    fail_with(path_, "write to", std::strerror(errno));
  }
}

void OutputFile::close() {
  if (file_ == nullptr) return;
  errno = 0;
  if (std::fclose(file_.release()) != 0) fail_with(path_, "close", std::strerror(errno));
}

void require_writable(const std::filesystem::path& path) {
  make_folder_of(path);
  std::error_code ignored;  // an empty file that stays is replaced
  const bool there = std::filesystem::exists(path, ignored);
  std::fclose(open_file(path, "a"));
  if (!there) std::filesystem::remove(path, ignored);
}

}  // namespace shard8::profile

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

}  // namespace

OutputFile::OutputFile(std::filesystem::path path) : path_(std::move(path)) {
  if (path_.has_parent_path()) {
    std::error_code error;
    std::filesystem::create_directories(path_.parent_path(), error);
    if (error) fail_with(path_.parent_path(), "make folder", error.message());
  }
  std::error_code ignored;  // what cannot be looked at cannot be opened either, which is said then
  if (std::filesystem::is_fifo(path_, ignored)) fail_with(path_, "open for writing", "it is a FIFO");
  file_.reset(std::fopen(path_.c_str(), "w"));
  if (file_ == nullptr) fail_with(path_, "open for writing", std::strerror(errno));
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
  OutputFile(path).close();
  std::error_code ignored;  // an empty file stays, and is replaced
  std::filesystem::remove(path, ignored);
}

}  // namespace shard8::profile

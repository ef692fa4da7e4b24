// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "io/input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

namespace shard8::io {
namespace {

namespace fs = std::filesystem;

/// How a pointer file of Git LFS begins, and the size that it stays below (github.com/git-lfs/git-lfs, docs/spec.md).
constexpr std::string_view kPointer = "version https://git-lfs.github.com/spec/";
constexpr std::uintmax_t kLongestPointer = 1024;

bool is_lfs_pointer(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored) || fs::file_size(path, ignored) >= kLongestPointer) return false;
  std::array<char, kPointer.size()> begin{};
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), begin.size());
  return file.good() && std::string_view(begin.data(), begin.size()) == kPointer;
}

std::string reason(int error) { return std::generic_category().message(error); }

}  // namespace

void require_content(const std::string& path) {
  std::error_code ignored;
  if (fs::is_symlink(path, ignored) && fs::status(path, ignored).type() == fs::file_type::not_found) {
    const auto target = fs::read_symlink(path, ignored);
    base::fail(base::ExitCode::deck,
               "'{}': the link leads to '{}', which is not there; copy or download the file itself, or mend the link",
               path, base::quotable(target.string()));
  }
  if (is_lfs_pointer(path)) {
    base::fail(base::ExitCode::deck,
               "'{}': is a pointer of Git LFS, and the file itself was not downloaded; run `git lfs pull` in its "
               "repository",
               path);
  }
}

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // opening a FIFO would wait for its writer
  if (descriptor_ < 0) {
    const int error = errno;
    base::fail(error == ENOENT ? base::ExitCode::deck : base::ExitCode::failed, "'{}': cannot open for reading: {}",
               path_, reason(error));
  }
  struct stat status = {};
  if (::fstat(descriptor_, &status) != 0) {
    const int error = errno;
    ::close(descriptor_);
    base::fail(base::ExitCode::failed, "'{}': cannot find its size: {}", path_, reason(error));
  }
  if (!S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    base::fail(base::ExitCode::deck, "'{}': not a regular file; a plain file is needed here", path_);
  }
  size_ = status.st_size;
  if (const int flags = ::fcntl(descriptor_, F_GETFL); flags != -1)  // some file systems apply O_NONBLOCK to files
    ::fcntl(descriptor_, F_SETFL, flags & ~O_NONBLOCK);
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);  // a failing close loses nothing: nothing was written
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

void InputFile::read(std::span<std::byte> out, std::int64_t offset) const {
  std::size_t done = 0;
  while (done < out.size()) {
    const auto got = ::pread(descriptor_, out.data() + done, out.size() - done,
                             static_cast<off_t>(offset) + static_cast<off_t>(done));
    if (got < 0) {
      if (errno == EINTR) continue;
      base::fail(base::ExitCode::failed, "'{}': cannot read {} bytes at byte {}: {}", path_, out.size(), offset,
                 reason(errno));
    }
    if (got == 0) {
      struct stat now = {};
      const std::int64_t bytes = ::fstat(descriptor_, &now) == 0 ? now.st_size : -1;
      base::fail(base::ExitCode::failed,
                 "'{}': bytes {} to {} are needed, but it has {} (it had {} when it was opened: "
                 "was it changed meanwhile?)",
                 path_, offset, offset + static_cast<std::int64_t>(out.size()), bytes, size_);
    }
    done += static_cast<std::size_t>(got);
  }
}

}  // namespace shard8::io

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/plain_file.hpp"
#include "base/text.hpp"

namespace shard8::io {
namespace {

[[noreturn]] void fail_with(int error, const std::string& path, const char* operation) {
  base::fail(base::ExitCode::environment, "'{}': cannot {}: {}; it needs a folder that can be written to and has room",
             path, operation, std::generic_category().message(error));
}

[[noreturn]] void cannot_read(const std::string& why, const std::string& path) {
  base::fail(base::ExitCode::environment, "'{}': cannot read: {}; make it readable, or move it elsewhere", path, why);
}

[[noreturn]] void cannot_read(int error, const std::string& path) {
  cannot_read(std::generic_category().message(error == 0 ? EIO : error), path);
}

/// path.tmp while it is being written. The destructor removes the file unless it was renamed.
class Temporary {
 public:
  explicit Temporary(const std::string& path)
      : path_(temporary_of(path)), descriptor_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
    if (descriptor_ < 0) fail_with(errno, path_, "create");
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!renamed_) ::unlink(path_.c_str());
  }

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto put = ::write(descriptor_, bytes.data(), bytes.size());
      if (put < 0) {
        if (errno == EINTR) continue;
        fail_with(errno, path_, "write");
      }
      bytes.remove_prefix(static_cast<std::size_t>(put));
    }
  }

  void finish(const std::string& target) {
    if (::fsync(descriptor_) != 0) fail_with(errno, path_, "fsync");
    if (::close(std::exchange(descriptor_, -1)) != 0) fail_with(errno, path_, "close");
    if (std::rename(path_.c_str(), target.c_str()) != 0) fail_with(errno, target, "rename into place");
    renamed_ = true;
  }

 private:
  std::string path_;
  int descriptor_;
  bool renamed_ = false;
};

}  // namespace

void write_durably(const std::string& path, std::string_view bytes) {
  Temporary temporary(path);
  temporary.write(bytes);
  temporary.finish(path);
  sync_folder(std::filesystem::path(path).parent_path().string());
}

void write_durably(const std::string& path, const std::function<void(const Sink& sink)>& produce) {
  constexpr std::size_t kPiece = 65536;  // chosen: few system calls
  Temporary temporary(path);
  std::string held;
  produce([&](std::string_view bytes) {
    held += bytes;
    if (held.size() < kPiece) return;
    temporary.write(held);
    held.clear();
  });
  temporary.write(held);
  temporary.finish(path);
  sync_folder(std::filesystem::path(path).parent_path().string());
}

void read_stream(const std::string& path, const std::function<void(std::istream& in)>& read) {
  base::PlainFile file = base::open_plain(path);
  if (!file.why.empty()) cannot_read(file.why, path);
  errno = 0;
  read(file.in);
  if (file.in.bad()) cannot_read(errno, path);
}

void sync_folder(const std::string& folder) {
  const std::string name = folder.empty() ? "." : folder;
  const int descriptor = ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail_with(errno, name, "open the folder");
  // Some file systems have no fsync for folders and return EINVAL, which is not an error here.
  const int error = ::fsync(descriptor) == 0 || errno == EINVAL ? 0 : errno;
  ::close(descriptor);
  if (error != 0) fail_with(error, name, "fsync the folder");
}

std::optional<std::string> text_if_there(const std::string& path) {
  base::PlainText file = base::read_plain(path);
  if (file.error == ENOENT || file.error == ENOTDIR) return std::nullopt;
  if (!file.why.empty()) cannot_read(file.why, path);
  return std::move(file.text);
}

std::string text_of(const std::string& path) { return text_if_there(path).value_or(std::string()); }

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

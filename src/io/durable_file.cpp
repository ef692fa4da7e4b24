// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/durable_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/plain_file.hpp"

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

}  // namespace shard8::io

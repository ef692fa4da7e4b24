// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/raw_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <limits>
#include <memory>
#include <new>
#include <system_error>
#include <utility>

namespace shard8::io {
namespace {

const char* remedy_of(int error, RawFile::Content content) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return content == RawFile::Content::checkpoint
                 ? "the disk or the quota is full: make room, or keep fewer checkpoints"
                 : "the disk or the quota is full: make room, or write to another disk";
    case EFBIG:
      return "raise the limit of file sizes (ulimit -f), or use a file system that allows such files";
    case EACCES:
    case EPERM:
    case EROFS:
      return "choose a folder that this user may write to";
    case EEXIST:
      return "remove it, or choose another folder";
    default:
      return "it needs a folder that can be written to and a disk that works";
  }
}

/// Memory from which direct I/O can write.
class PageBuffer {
 public:
  static constexpr std::size_t kBytes = std::size_t{4} << 20;  // chosen: as long as a block of a shard file
  std::byte* data() const { return memory_.get(); }

 private:
  static constexpr std::align_val_t kPage{RawFile::kDirectPage};
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete(memory, kPage); }
  };
  std::unique_ptr<std::byte, Free> memory_{static_cast<std::byte*>(::operator new(kBytes, kPage))};
};

PageBuffer& page_buffer() {
  thread_local PageBuffer buffer;
  return buffer;
}

sigset_t file_size_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGXFSZ);
  return set;
}

}  // namespace

HeldFileSizeSignal::HeldFileSizeSignal() {
  const sigset_t set = file_size_signal();
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &set, &before);
  held_before_ = sigismember(&before, SIGXFSZ) == 1;
}

HeldFileSizeSignal::~HeldFileSizeSignal() {
  if (held_before_) return;
  const int error = errno;  // of the call that was guarded
  const sigset_t set = file_size_signal();
  const timespec at_once = {};
  sigtimedwait(&set, nullptr, &at_once);  // the kernel sends it to the thread that wrote
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  errno = error;
}

std::uint64_t longest_file() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::numeric_limits<off_t>::max();
  }
  return limit.rlim_cur;
}

RawFile::RawFile(std::string path, int flags, base::ExitCode code, const char* operation)
    : path_(std::move(path)), code_(code), descriptor_(::open(path_.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0666)) {
  if (descriptor_ < 0) fail_with(errno, operation);
  struct stat status = {};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(std::exchange(descriptor_, -1));
    base::fail(
        code_,
        "'{}': not a regular file, as a file of a checkpoint must be; use another checkpoint, or copy this file again",
        path_);
  }
  // O_NONBLOCK is for open() alone, which would wait for the writer of a FIFO; some file systems apply it to files.
  if (const int now = ::fcntl(descriptor_, F_GETFL); now != -1) ::fcntl(descriptor_, F_SETFL, now & ~O_NONBLOCK);
}

RawFile RawFile::create(const std::string& path, Content content) {
  RawFile file(path, O_RDWR | O_CREAT | O_EXCL, base::ExitCode::failed, "create");
  file.content_ = content;
  return file;
}

RawFile RawFile::open_for_reading(const std::string& path) {
  return {path, O_RDONLY, base::ExitCode::checkpoint, "open for reading"};
}

RawFile RawFile::open_for_writing(const std::string& path) {
  return {path, O_RDWR, base::ExitCode::failed, "open for writing"};
}

RawFile::RawFile(RawFile&& other) noexcept
    : path_(std::move(other.path_)),
      code_(other.code_),
      content_(other.content_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      direct_(std::exchange(other.direct_, -1)) {}

RawFile& RawFile::operator=(RawFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(code_, other.code_);
  std::swap(content_, other.content_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(direct_, other.direct_);
  return *this;
}

RawFile::~RawFile() {
  if (direct_ >= 0) ::close(direct_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

void RawFile::fail_with(int error, const std::string& operation) const {
  const bool reading = code_ == base::ExitCode::checkpoint;
  base::fail(
      code_, "'{}': cannot {}: {}; {}", path_, operation, std::generic_category().message(error),
      reading ? "check the disk and the file's permissions, or use another checkpoint" : remedy_of(error, content_));
}

std::uint64_t RawFile::length() const {
  struct stat status = {};
  if (::fstat(descriptor_, &status) != 0) fail_with(errno, "find its length");
  return static_cast<std::uint64_t>(status.st_size);
}

void RawFile::read(std::span<std::byte> out, std::uint64_t offset) const {
  std::size_t done = 0;
  while (done < out.size()) {
    const auto got = ::pread(descriptor_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_with(errno, fmt::format("read {} bytes at byte {}", out.size(), offset));
    if (got == 0) {
      base::fail(code_, "'{}': bytes {} to {} are needed, but it has {}; it was cut, or is changed by another program",
                 path_, offset, offset + out.size(), length());
    }
    done += static_cast<std::size_t>(got);
  }
}

void RawFile::will_read(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  ::posix_fadvise(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
}

void RawFile::write(std::span<const std::byte> bytes, std::uint64_t offset) { write_to(descriptor_, bytes, offset); }

/// False if direct I/O cannot do this, because the disk has larger blocks, for instance.
bool RawFile::write_to(int descriptor, std::span<const std::byte> bytes, std::uint64_t offset) {
  const HeldFileSizeSignal held;
  std::size_t done = 0;
  while (done < bytes.size()) {
    const auto put = ::pwrite(descriptor, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EINVAL && descriptor == direct_) return false;
    if (put <= 0) {
      fail_with(put < 0 ? errno : ENOSPC, fmt::format("write {} bytes at byte {}", bytes.size(), offset));
    }
    done += static_cast<std::size_t>(put);
  }
  return true;
}

bool RawFile::open_direct() {
  if (direct_ < 0) direct_ = ::open(path_.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC);
  return direct_ >= 0;
}

void RawFile::write_direct(std::span<const std::byte> bytes, std::uint64_t offset) {
  std::size_t direct = direct_ >= 0 && offset % kDirectPage == 0 ? bytes.size() / kDirectPage * kDirectPage : 0;
  const bool aligned = reinterpret_cast<std::uintptr_t>(bytes.data()) % kDirectMemory == 0;
  if (direct > 0 && !(aligned && write_to(direct_, bytes.first(direct), offset))) {
    PageBuffer& buffer = page_buffer();
    for (std::size_t done = 0; done < direct; done += PageBuffer::kBytes) {
      const std::size_t now = std::min(direct - done, PageBuffer::kBytes);
      std::memcpy(buffer.data(), bytes.data() + done, now);
      if (!write_to(direct_, {buffer.data(), now}, offset + done)) direct = done;
    }
  }
  if (direct < bytes.size()) write(bytes.subspan(direct), offset + direct);
}

/// A failed write to the disk may be reported here and not by the fsync that follows.
void RawFile::writeback(std::uint64_t offset, std::uint64_t bytes, unsigned flags) {
  int status = 0;
  do {
    status = ::sync_file_range(descriptor_, static_cast<off64_t>(offset), static_cast<off64_t>(bytes), flags);
  } while (status != 0 && errno == EINTR);
  if (status != 0 && (errno == EIO || errno == ENOSPC || errno == EDQUOT))
    fail_with(errno, fmt::format("write {} bytes at byte {} to the disk", bytes, offset));
}

void RawFile::start_writeback(std::uint64_t offset, std::uint64_t bytes) {
  writeback(offset, bytes, SYNC_FILE_RANGE_WRITE);
}

void RawFile::end_writeback(std::uint64_t offset, std::uint64_t bytes) {
  writeback(offset, bytes, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  ::posix_fadvise(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
}

void RawFile::set_length(std::uint64_t bytes) {
  const HeldFileSizeSignal held;
  const auto operation = [&] { return fmt::format("make it {} bytes long", bytes); };
  int status = 0;
  do {
    status = ::ftruncate(descriptor_, static_cast<off_t>(bytes));
  } while (status != 0 && errno == EINTR);
  if (status != 0) fail_with(errno, operation());
  if (bytes == 0) return;
  do {
    status = ::fallocate(descriptor_, 0, 0, static_cast<off_t>(bytes));
  } while (status != 0 && errno == EINTR);
  if (status != 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) fail_with(errno, operation());
}

void RawFile::sync() {
  int status = 0;
  do {
    status = ::fsync(descriptor_);
  } while (status != 0 && errno == EINTR);
  if (status != 0) fail_with(errno, "fsync");
}

void RawFile::close() {
  // After EINTR, Linux has closed the descriptor.
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) fail_with(errno, "close");
}

}  // namespace shard8::io

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/error.hpp"

namespace shard8::io {

/// A plain file of a checkpoint, read and written at byte offsets. Any thread may read and write, also at the same
/// time. Calls that a signal interrupts and short transfers are continued. A write beyond the limit of file sizes
/// (ulimit -f) is an error; it does not raise SIGXFSZ in this process, which would end it.
///
/// Errors name the path, the operation, the bytes, the system's reason and what to do. The errors are Error(checkpoint)
/// for a file that was opened for reading, Error(failed) for one that is written.
class RawFile {
 public:
  /// Direct I/O begins at multiples of kDirectPage in the file and is that many bytes or a multiple, as most disks
  /// need. Most disks can read memory that begins at a multiple of kDirectMemory.
  static constexpr std::uint64_t kDirectPage = 4096, kDirectMemory = 512;

  /// What a file holds, for the advice of errors.
  enum class Content { checkpoint, other };
  /// Makes a new file, open for reading and writing. A path that exists is an error.
  static RawFile create(const std::string& path, Content content = Content::checkpoint);
  static RawFile open_for_reading(const std::string& path);
  static RawFile open_for_writing(const std::string& path);

  RawFile(RawFile&& other) noexcept;
  RawFile& operator=(RawFile&& other) noexcept;
  /// Closes the file. Who has written calls close(), which checks.
  ~RawFile();

  const std::string& path() const { return path_; }
  std::uint64_t length() const;

  /// Fills `out` with the bytes from `offset` on. A file that ends before `out` is full is an error.
  void read(std::span<std::byte> out, std::uint64_t offset) const;
  /// Says that these bytes will be read soon: the system may fetch them meanwhile.
  void will_read(std::uint64_t offset, std::uint64_t bytes) const noexcept;
  void write(std::span<const std::byte> bytes, std::uint64_t offset);
  /// From now on write_direct() may use direct I/O (O_DIRECT). False where the file system has none.
  bool open_direct();
  /// As write(), but whole pages go to the disk past the page cache, which takes a fraction of write()'s processor
  /// time; the thread sleeps until the disk has the bytes. The pages go from `bytes` where it is aligned to
  /// kDirectMemory, and else, or if the disk needs more, from a buffer of this thread. Without open_direct(), or if
  /// `offset` is no multiple of kDirectPage, the call is write().
  void write_direct(std::span<const std::byte> bytes, std::uint64_t offset);
  /// Has bytes that were written go to the disk now, and does not wait. Error if an earlier such write failed. Does
  /// nothing where the system cannot.
  void start_writeback(std::uint64_t offset, std::uint64_t bytes);
  /// Waits until these bytes have gone to the disk, and has the system forget its copies of them. The call alone does
  /// not make the bytes survive a crash: sync() does.
  void end_writeback(std::uint64_t offset, std::uint64_t bytes);
  /// Makes the file `bytes` long. Where the file system can, the call reserves the room on the disk, so that a full
  /// disk is found here and not by a later write.
  void set_length(std::uint64_t bytes);
  /// Makes what was written survive a crash (fsync).
  void sync();
  void close();

 private:
  RawFile(std::string path, int flags, base::ExitCode code, const char* operation);
  bool write_to(int descriptor, std::span<const std::byte> bytes, std::uint64_t offset);
  void writeback(std::uint64_t offset, std::uint64_t bytes, unsigned flags);
  [[noreturn]] void fail_with(int error, const std::string& operation) const;

  std::string path_;
  base::ExitCode code_;
  Content content_ = Content::checkpoint;
  int descriptor_ = -1;
  int direct_ = -1;  ///< the file opened for direct I/O; −1: not opened
};

/// The longest file that this process may write (ulimit -f).
std::uint64_t longest_file();

/// Holds back SIGXFSZ on this thread. The destructor discards one that came meanwhile.
class HeldFileSizeSignal {
 public:
  HeldFileSizeSignal();
  ~HeldFileSizeSignal();
  HeldFileSizeSignal(const HeldFileSizeSignal&) = delete;
  HeldFileSizeSignal& operator=(const HeldFileSizeSignal&) = delete;

 private:
  bool held_before_ = false;
};

}  // namespace shard8::io

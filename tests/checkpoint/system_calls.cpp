// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// The linker sends the calls here (--wrap, tests/checkpoint/CMakeLists.txt).
#include "tests/checkpoint/system_calls.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

namespace shard8::test {
namespace {

struct {
  int left = 0;
  std::string call, path_end;
  int error = 0;
} plan;

bool fails(std::string_view call, const std::string& path) {
  if (plan.call != call || !path.ends_with(plan.path_end)) return false;
  errno = plan.error;
  return true;
}

std::string path_of(int descriptor) {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor), ignored).string();
}

template <class Result>
Result counted(Result result) {
  const int error = errno;
  if (plan.left > 0 && --plan.left == 0) ::_exit(0);
  errno = error;
  return result;
}

}  // namespace

void exit_after(int n) { plan.left = n; }

FailingCall::FailingCall(std::string call, std::string path_end, int error) {
  plan.call = std::move(call);
  plan.path_end = std::move(path_end);
  plan.error = error;
}

FailingCall::~FailingCall() { plan.call.clear(); }

extern "C" {

int __real_fsync(int descriptor);
int __real_mkdir(const char* path, mode_t mode);
int __real_open(const char* path, int flags, ...);
ssize_t __real_pwrite(int descriptor, const void* bytes, std::size_t count, off_t offset);
int __real_rename(const char* from, const char* to);
int __real_rmdir(const char* path);
int __real_unlink(const char* path);
ssize_t __real_write(int descriptor, const void* bytes, std::size_t count);

int __wrap_fsync(int descriptor) {
  if (fails("fsync", path_of(descriptor))) return -1;
  return counted(plan.left > 0 ? 0 : __real_fsync(descriptor));  // the files of a process that ends stay in memory
}
int __wrap_mkdir(const char* path, mode_t mode) {
  return fails("mkdir", path) ? -1 : counted(__real_mkdir(path, mode));
}
int __wrap_open(const char* path, int flags, ...) {
  if ((flags & (O_WRONLY | O_RDWR)) == 0) return __real_open(path, flags);
  std::va_list rest;
  va_start(rest, flags);
  const auto mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return fails("open", path) ? -1 : counted(__real_open(path, flags, mode));
}
ssize_t __wrap_pwrite(int descriptor, const void* bytes, std::size_t count, off_t offset) {
  return fails("pwrite", path_of(descriptor)) ? -1 : counted(__real_pwrite(descriptor, bytes, count, offset));
}
int __wrap_rename(const char* from, const char* to) {
  return fails("rename", to) ? -1 : counted(__real_rename(from, to));
}
int __wrap_rmdir(const char* path) { return fails("rmdir", path) ? -1 : counted(__real_rmdir(path)); }
int __wrap_unlink(const char* path) { return fails("unlink", path) ? -1 : counted(__real_unlink(path)); }
ssize_t __wrap_write(int descriptor, const void* bytes, std::size_t count) {
  return fails("write", path_of(descriptor)) ? -1 : counted(__real_write(descriptor, bytes, count));
}

}  // extern "C"

}  // namespace shard8::test

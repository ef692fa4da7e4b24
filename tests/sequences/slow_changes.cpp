// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// This library is loaded before all others into programs that tests kill at random moments. Every change of a folder
// and every sync waits before it happens, so that a kill comes between two changes as often as between two
// computations. On a local disk such moments take microseconds, and a test would meet one in thousands of runs.

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>

namespace {

void wait() {
  constexpr std::timespec kDelay = {0, 3'000'000};  // chosen: a move of a folder's files takes as long as a start
  ::nanosleep(&kDelay, nullptr);
}

template <class Function>
Function original(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int rename(const char* from, const char* to) noexcept {
  static const auto call = original<int (*)(const char*, const char*)>("rename");
  wait();
  return call(from, to);
}

int unlink(const char* path) noexcept {
  static const auto call = original<int (*)(const char*)>("unlink");
  wait();
  return call(path);
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  static const auto call = original<int (*)(int, const char*, int)>("unlinkat");
  wait();
  return call(folder, path, flags);
}

int remove(const char* path) noexcept {
  static const auto call = original<int (*)(const char*)>("remove");
  wait();
  return call(path);
}

int link(const char* from, const char* to) noexcept {
  static const auto call = original<int (*)(const char*, const char*)>("link");
  wait();
  return call(from, to);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static const auto call = original<int (*)(const char*, mode_t)>("mkdir");
  wait();
  return call(path, mode);
}

int fsync(int file) {
  static const auto call = original<int (*)(int)>("fsync");
  wait();
  return call(file);
}

int fdatasync(int file) {
  static const auto call = original<int (*)(int)>("fdatasync");
  wait();
  return call(file);
}
}

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// This library is loaded before all others and makes a process wait for its disk: the first pwrite to a shard file and
// the first mkdir of a checkpoint's folder take SHARD8_SLOW_SECONDS. pwrite is slow on the rank SHARD8_SLOW_RANK alone.
// mkdir of SHARD8_SLOW_FOLDER takes 0.4 s on rank 0 and 0.2 s on other ranks, fopen of SHARD8_SLOW_FILE 0.8 s.

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void wait_once(std::atomic<bool>& waited) {
  if (waited.exchange(true)) return;
  std::fprintf(stderr, "slow_files: rank %s waits\n", variable("PMI_RANK").c_str());
  ::sleep(static_cast<unsigned>(std::atoi(variable("SHARD8_SLOW_SECONDS").c_str())));
}

bool ends_with(const std::string& path, const std::string& end) {
  return path.size() >= end.size() && path.compare(path.size() - end.size(), end.size(), end) == 0;
}

template <class F>
F next(const char* name) {
  return reinterpret_cast<F>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t pwrite(int descriptor, const void* bytes, size_t count, off_t offset) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  static std::atomic<bool> waited = false;
  std::array<char, 4096> path{};
  const auto length = ::readlink(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), path.data(), path.size());
  if (length > 3 && ends_with(std::string(path.data(), static_cast<std::size_t>(length)), ".h5") &&
      variable("PMI_RANK") == variable("SHARD8_SLOW_RANK"))
    wait_once(waited);
  return real(descriptor, bytes, count, offset);
}

ssize_t pwrite64(int descriptor, const void* bytes, size_t count, off_t offset) {
  return pwrite(descriptor, bytes, count, offset);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static const auto real = next<int (*)(const char*, mode_t)>("mkdir");
  static std::atomic<bool> waited = false;
  if (ends_with(path, ".tmp")) wait_once(waited);
  if (path == variable("SHARD8_SLOW_FOLDER")) ::usleep(variable("PMI_RANK") == "0" ? 400'000 : 200'000);
  return real(path, mode);
}

FILE* fopen(const char* path, const char* mode) {
  static const auto real = next<FILE* (*)(const char*, const char*)>("fopen");
  if (path == variable("SHARD8_SLOW_FILE")) ::usleep(800'000);
  return real(path, mode);
}

FILE* fopen64(const char* path, const char* mode) { return fopen(path, mode); }

}  // extern "C"

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "base/plain_file.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <system_error>

namespace shard8::base {
namespace {

/// Whether the path leads to a pipe without a name, such as /dev/fd/63 or /dev/stdin behind `|`.
bool is_unnamed(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
  return real == nullptr;
}

PlainFile failed(int error, const std::string& why = {}) {
  return {.in = {}, .error = error, .why = why.empty() ? std::generic_category().message(error) : why};
}

}  // namespace

PlainFile open_plain(const std::string& path, Pipes pipes) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return failed(errno);
  if (S_ISDIR(status.st_mode)) return failed(EISDIR);
  const bool is_pipe = S_ISFIFO(status.st_mode);
  if (!S_ISREG(status.st_mode) && !(is_pipe && pipes == Pipes::read && is_unnamed(path)))
    return failed(EINVAL, is_pipe ? "it is a FIFO, not a regular file" : "it is not a regular file");
  errno = 0;
  PlainFile file{.in = std::ifstream(path, std::ios::binary), .error = 0, .why = {}};
  if (!file.in) return failed(errno == 0 ? EIO : errno);
  return file;
}

}  // namespace shard8::base

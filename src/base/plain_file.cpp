// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "base/plain_file.hpp"

#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <utility>

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

PlainText read_plain(const std::string& path, Pipes pipes) {
  PlainFile file = open_plain(path, pipes);
  if (!file.why.empty()) return {.error = file.error, .why = std::move(file.why)};
  PlainText all;
  std::array<char, 65536> piece;
  errno = 0;
  while (file.in.read(piece.data(), piece.size()) || file.in.gcount() > 0)
    all.text.append(piece.data(), static_cast<std::size_t>(file.in.gcount()));
  if (!file.in.bad() && file.in.eof()) return all;
  all.error = errno == 0 ? EIO : errno;
  all.why = std::generic_category().message(all.error);
  return all;
}

}  // namespace shard8::base

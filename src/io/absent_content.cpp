// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "io/absent_content.hpp"

#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/error.hpp"
#include "base/text.hpp"

namespace shard8::io {

namespace {

namespace fs = std::filesystem;

/// The first bytes of a pointer (github.com/git-lfs/git-lfs, docs/spec.md, which says that one has less than 1024).
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

}  // namespace shard8::io

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "base/distinct_files.hpp"

#include <map>
#include <system_error>

#include "base/error.hpp"

namespace shard8::base {
namespace {

/// The path without links. A path that the system cannot follow stays as it is: whoever opens it says why.
std::filesystem::path without_links(const std::filesystem::path& path) {
  std::error_code error;
  auto canonical = std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  return error ? path : canonical;
}

}  // namespace

void require_distinct(std::string_view command, const std::vector<NamedFile>& written,
                      const std::vector<NamedFile>& read) {
  std::map<std::filesystem::path, std::string> others;
  for (const NamedFile& file : read) others.emplace(without_links(file.path), file.what);
  for (const NamedFile& file : written)
    if (const auto found = others.find(without_links(file.path)); found != others.end())
      fail(ExitCode::deck, "{}: {} '{}' would replace {}, which is read: give {} another name", command, file.what,
           file.path.string(), found->second, file.what);
  std::map<std::filesystem::path, std::string> earlier;
  for (const NamedFile& file : written)
    if (const auto [found, is_new] = earlier.emplace(without_links(file.path), file.what); !is_new)
      fail(ExitCode::deck, "{}: {} and {} are one file, '{}'; give them different names", command, found->second,
           file.what, file.path.string());
}

}  // namespace shard8::base

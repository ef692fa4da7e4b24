// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace shard8::base {

/// A file of a command line, and the word that names it there: "--json", "the deck".
struct NamedFile {
  std::string what;
  std::filesystem::path path;
};

/// Error(deck), which begins with `command`, if a file that the command writes is one that it reads, or if two that it
/// writes are one, whatever links lead to them.
void require_distinct(std::string_view command, const std::vector<NamedFile>& written,
                      const std::vector<NamedFile>& read);

}  // namespace shard8::base

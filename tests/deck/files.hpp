// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace shard8::deck {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Makes the repository's root the working directory until the end of the scope.
class AtRoot {
 public:
  AtRoot() : before_(std::filesystem::current_path()) { std::filesystem::current_path(SHARD8_SOURCE_DIR); }
  ~AtRoot() { std::filesystem::current_path(before_); }
  AtRoot(const AtRoot&) = delete;
  AtRoot& operator=(const AtRoot&) = delete;

 private:
  std::filesystem::path before_;
};

}  // namespace shard8::deck

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"

namespace shard8::base {

// Messages show folder and file name: enough to find the line, without the path of the build.
std::string_view short_path(std::string_view path) {
  const auto file = path.rfind('/');
  if (file == std::string_view::npos || file == 0) return path;
  const auto folder = path.rfind('/', file - 1);
  return folder == std::string_view::npos ? path : path.substr(folder + 1);
}

void require_failed(const char* expression, const char* file, int line, const std::string& message) {
  fail(ExitCode::failed, "{} (requirement '{}' does not hold at {}:{})", message, expression, short_path(file), line);
}

}  // namespace shard8::base

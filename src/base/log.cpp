// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include <string>

#include "base/colour.hpp"

namespace shard8::base {

void Logger::write(LogLevel level, std::string_view text) const {
  std::string line;
  if (level != LogLevel::info) {
    line = "shard8: ";
    if (ranks_ > 1) line += fmt::format("rank {}: ", rank_);
    line += level == LogLevel::warn ? "warning: " : "error: ";
  }
  line += text;
  line += '\n';
  std::FILE* file = level == LogLevel::info ? out_ : err_;
  if (level != LogLevel::info) line = coloured(line, file);
  std::fwrite(line.data(), 1, line.size(), file);
  std::fflush(file);
}

}  // namespace shard8::base

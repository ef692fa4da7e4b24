// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "base/log.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

namespace shard8::base {

bool has_colours(std::FILE* file) {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  const std::string_view terminal = variable("TERM");
  return variable("NO_COLOR").empty() && !terminal.empty() && terminal != "dumb" && ::isatty(::fileno(file)) == 1;
}

std::string with_colours(std::string_view text) {
  constexpr std::string_view kRed = "\x1b[1;31m", kYellow = "\x1b[1;33m", kNone = "\x1b[0m", kProgram = "shard8:";
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"error:", kRed}, {"warning:", kYellow}, {kProgram, kRed}};
  std::string result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    std::string line(text.substr(0, end + 1));
    for (const auto& [word, colour] : kWords) {
      const std::size_t at = line.find(word);
      const bool begins = at == 0 || (at != std::string::npos && line[at - 1] == ' ' && word != kProgram);
      if (begins) {
        line.insert(at + word.size(), kNone);
        line.insert(at, colour);
        break;
      }
    }
    result += line;
    text.remove_prefix(end + 1);
  }
  return result;
}

std::string coloured(std::string_view text, std::FILE* file) {
  return has_colours(file) ? with_colours(text) : std::string(text);
}

void print_coloured(std::string_view text, std::FILE* file) {
  const std::string line = coloured(text, file);
  std::fwrite(line.data(), 1, line.size(), file);
}

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

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "base/colour.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
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
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {{"error:", "\x1b[1;31m"},
                                                                      {"warning:", "\x1b[1;33m"}};
  std::string result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    std::string line(text.substr(0, end + 1));
    for (const auto& [word, colour] : kWords) {
      const std::size_t at = line.find(word);
      const bool begins = at == 0 || (at != std::string::npos && line[at - 1] == ' ');
      if (begins) {
        line.insert(at + word.size(), "\x1b[0m");
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

}  // namespace shard8::base

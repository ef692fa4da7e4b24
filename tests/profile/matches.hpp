// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <regex.h>

#include <sstream>
#include <string>

namespace shard8::profile::tests {

/// Whether the whole text matches the POSIX extended regular expression. <regex> is not used, because GCC 12 warns
/// inside its own <regex> when sanitizers are on.
inline bool matches(const std::string& text, const std::string& pattern) {
  regex_t regex;
  if (::regcomp(&regex, ("^(" + pattern + ")$").c_str(), REG_EXTENDED | REG_NOSUB) != 0) {
    ADD_FAILURE() << "bad regular expression: " << pattern;
    return false;
  }
  const bool found = ::regexec(&regex, text.c_str(), 0, nullptr, 0) == 0;
  ::regfree(&regex);
  return found;
}

/// Fails unless a line of the text matches the pattern.
inline void expect_line(const std::string& text, const std::string& pattern) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (matches(line, pattern)) return;
  }
  ADD_FAILURE() << "no line matches\n" << pattern << "\nin\n" << text;
}

}  // namespace shard8::profile::tests

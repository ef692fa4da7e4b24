// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

namespace shard8::base {

/// Whether texts for `file` get colours: it is a terminal that has them (TERM is neither empty nor "dumb"), and the
/// variable NO_COLOR is unset or empty (no-color.org).
bool has_colours(std::FILE* file);

/// The text with "error:" in red or "warning:" in yellow, the first of them on each line that has one, by the escape
/// sequences of ECMA-48. On a line without them "shard8:" at its begin is red: errors of the program begin so.
std::string with_colours(std::string_view text);

/// with_colours(text) if has_colours(file), otherwise the text.
std::string coloured(std::string_view text, std::FILE* file);

/// Writes coloured(text, file). Failing to write is no error.
void print_coloured(std::string_view text, std::FILE* file);

enum class LogLevel { info, warn, error };

/// Writes messages. There is no global logger: a Logger is passed by value. Information goes to `out`, from the
/// speaking rank alone. Warnings and errors go to `err`, from any rank; with more than one rank they begin with the
/// rank's number. Each message is one write and ends with a newline, so lines of several ranks do not mix.
class Logger {
 public:
  Logger() = default;

  /// `rank` is the caller's number among `ranks`. Only the rank `speaker` prints information.
  Logger(int rank, int ranks, int speaker = 0, std::FILE* out = stdout, std::FILE* err = stderr)
      : rank_(rank), ranks_(ranks), speaker_(speaker), out_(out), err_(err) {}

  /// Whether this rank prints information.
  bool speaks() const { return rank_ == speaker_; }

  template <class... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) const {
    if (speaks()) write(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::warn, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void error(fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::error, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  /// Prints information as it is, others as "shard8: [rank R: ]warning: text", and flushes.
  void write(LogLevel level, std::string_view text) const;

  int rank_ = 0;
  int ranks_ = 1;
  int speaker_ = 0;
  std::FILE* out_ = stdout;
  std::FILE* err_ = stderr;
};

}  // namespace shard8::base

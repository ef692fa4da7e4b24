// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string_view>
#include <utility>

namespace shard8::base {

enum class LogLevel { info, warn, error };

/// Writes lines of text; copied and passed around, there is no global one. Information goes to
/// `out` from the speaking rank alone, warnings and errors to `err` from any rank, with the rank's
/// number in front. A message is one write, so that lines of several ranks do not mix.
class Logger {
 public:
  Logger() = default;

  /// `rank` is the caller's number among `ranks`; `speaker` is the only one that prints info.
  Logger(int rank, int ranks, int speaker = 0, std::FILE* out = stdout, std::FILE* err = stderr)
      : rank_(rank), ranks_(ranks), speaker_(speaker), out_(out), err_(err) {}

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
  /// Info as it is; others as "shard8: [rank R: ]warning: text". Flushed at once.
  void write(LogLevel level, std::string_view text) const;

  int rank_ = 0;
  int ranks_ = 1;
  int speaker_ = 0;
  std::FILE* out_ = stdout;
  std::FILE* err_ = stderr;
};

}  // namespace shard8::base

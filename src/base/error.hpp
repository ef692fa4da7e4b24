// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "base/exit_code.hpp"

namespace shard8::base {

/// Whatever ends a run. The text says what, where, the value, what is allowed and what to do, in
/// lower case; the code is the one that the process exits with.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}

  ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

/// Throws Error(code) with the formatted message.
template <class... Args>
[[noreturn]] void fail(ExitCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

/// Throws Error(failed) "message (requirement 'expression' does not hold at folder/file:line)".
[[noreturn]] void require_failed(const char* expression, const char* file, int line, const std::string& message);

}  // namespace shard8::base

/// Throws base::Error(ExitCode::failed) unless the expression holds. The rest is an fmt format
/// string and its arguments, evaluated on failure only.
#define SHARD8_REQUIRE(expression, ...)                                                            \
  do {                                                                                             \
    if (!(expression)) {                                                                           \
      ::shard8::base::require_failed(#expression, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)); \
    }                                                                                              \
  } while (false)

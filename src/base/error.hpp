// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace shard8::base {

/// The exit codes of the program. Every rank exits with the same code.
enum class ExitCode : int {
  ok = 0,            ///< done
  deck = 2,          ///< bad deck or bad usage
  environment = 3,   ///< ranks, devices or libraries are not as needed
  checkpoint = 4,    ///< checkpoint unusable
  failed = 5,        ///< failed while running
  verification = 6,  ///< ran to the end, but the result fails the deck's verification
  stopped = 75,      ///< stopped early with a checkpoint written; run again to continue
};

/// The code as the number for exit().
constexpr int to_int(ExitCode code) { return static_cast<int>(code); }

/// An error that ends a run. The process exits with the code. The message says what went wrong, where, the value, what
/// is allowed and what to do, in lower case.
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

/// The last folder and the file name of a source's path: "tensor/arena.cpp". The short path is enough to find a line,
/// and does not show where the program was built. A path with no folder is returned as it is.
inline std::string_view short_path(std::string_view path) {
  const auto file = path.rfind('/');
  if (file == std::string_view::npos || file == 0) return path;
  const auto folder = path.rfind('/', file - 1);
  return folder == std::string_view::npos ? path : path.substr(folder + 1);
}

/// Throws Error(failed) "message (requirement 'expression' does not hold at folder/file:line)".
[[noreturn]] inline void require_failed(const char* expression, const char* file, int line,
                                        const std::string& message) {
  fail(ExitCode::failed, "{} (requirement '{}' does not hold at {}:{})", message, expression, short_path(file), line);
}

}  // namespace shard8::base

/// Throws base::Error(ExitCode::failed) unless the expression is true. The other arguments are an fmt format string and
/// its arguments; they are evaluated on failure only.
#define SHARD8_REQUIRE(expression, ...)                                                            \
  do {                                                                                             \
    if (!(expression)) {                                                                           \
      ::shard8::base::require_failed(#expression, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)); \
    }                                                                                              \
  } while (false)

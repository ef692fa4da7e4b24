// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace shard8::base {

/// The source, and the compiler and options, that this binary was built from.
struct Version {
  std::string_view number;      ///< as "0.2.0"
  std::string_view git_hash;    ///< 40 hex digits, "+dirty" after them if files were changed; "unknown" outside git
  std::string_view build_type;  ///< "Release", "Debug", ...
  std::string_view compiler;    ///< as "GNU 12.2.0"
  std::string_view march;       ///< as given to -march=, empty for the compiler's default
  std::string_view sanitizers;  ///< as given to -fsanitize=, empty for none
};

Version version();

}  // namespace shard8::base

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

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

}  // namespace shard8::base

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

/// The text with the words "error:" in red and "warning:" in yellow, the first of each on a line, by the escape
/// sequences of ECMA-48.
std::string with_colours(std::string_view text);

/// with_colours(text) if has_colours(file), otherwise the text.
std::string coloured(std::string_view text, std::FILE* file);

}  // namespace shard8::base

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shard8::base {

/// Text from a file as a terminal can show it: control characters other than tabs become '?'.
std::string printable(std::string_view text);

/// The first `most` bytes of a text and "..." if it is longer. No UTF-8 character is cut in two.
std::string shortened(std::string_view text, std::size_t most);

/// Both: what a message shows of a name or value that a file holds.
std::string quotable(std::string_view text);

/// True if the bytes are UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates.
bool is_utf8(std::string_view text);

}  // namespace shard8::base

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace shard8::base {

/// The text as a terminal can show it: every control character but the tab becomes '?', newlines too.
std::string printable(std::string_view text);

/// The text if it has at most `most` bytes. Otherwise its first `most` bytes, or up to three fewer so that no UTF-8
/// character is cut in two, followed by "...".
std::string shortened(std::string_view text, std::size_t most);

/// A name or value from a file as a message shows it: shortened to 200 bytes and printable.
std::string quotable(std::string_view text);

/// True if the bytes are UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates.
bool is_utf8(std::string_view text);

/// The number with its noun: "1 step", "3 steps".
std::string count(std::int64_t n, std::string_view one, std::string_view many);

}  // namespace shard8::base

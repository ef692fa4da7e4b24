// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace shard8::checkpoint {

/// XXH3-128 of the bytes as 32 lower-case hex digits, the high half first, as `xxhsum -H2` prints it.
std::string digest_of(std::string_view bytes);

}  // namespace shard8::checkpoint

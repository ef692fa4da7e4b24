// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace shard8::base {

/// The last folder and the file name of a source's path: "tensor/arena.cpp". It is enough to find a line, and does not
/// show where the program was built. A path with no folder is returned as it is.
std::string_view short_path(std::string_view path);

}  // namespace shard8::base

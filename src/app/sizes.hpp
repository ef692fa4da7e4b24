// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shard8::app {

/// "80GiB" or "64kB" in bytes. Error(deck), which begins with `option`, for another form.
std::uint64_t bytes_of(const std::string& text, std::string_view option);

}  // namespace shard8::app

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

namespace shard8::deck {

/// The candidate that a typing error most likely meant, empty if none is near: least number of
/// inserted, deleted, replaced and swapped letters (optimal string alignment), case aside, at most
/// a third of the longer word.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace shard8::deck

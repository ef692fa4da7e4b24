// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "profile/collective_log.hpp"
#include "train/setup.hpp"

namespace shard8::test {

/// How often collectives of a kind were called, and the bytes of all these calls.
struct Calls {
  std::uint64_t calls = 0, bytes = 0;
};
using CallsByKind = std::map<profile::CollectiveKey, Calls>;

/// One line for each kind, as those of a rank.
std::string text_of(int rank, const CallsByKind& all);
/// Those of so many steps, as they are planned.
CallsByKind planned_calls(const train::Setup& setup, std::uint64_t steps);

}  // namespace shard8::test

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "machine/machine.hpp"

namespace shard8::machine {

/// All groups, keys and forms of rows: as "yaml", a file to be filled in with comments, which read_text() takes as it
/// is, or as "markdown", tables for docs/projection.md. Throws Error(deck) for another format.
std::string print_table(std::string_view format);

/// What a machine file gives, a line for each group that has entries: how many, and their sources.
std::string summary(const Machine& machine);

}  // namespace shard8::machine

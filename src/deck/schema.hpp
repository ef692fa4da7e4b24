// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shard8::deck {

/// A JSON schema (draft 2020-12) of YAML decks, from the table of fields: names, types, bounds, choices, defaults and
/// required keys. Checks that involve several keys are not in it, nor numbers as Fortran spells them.
std::string json_schema();

}  // namespace shard8::deck

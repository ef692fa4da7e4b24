// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "machine/fields.hpp"
#include "machine/machine.hpp"

namespace shard8::machine {

/// A row of a table of times, without its time.
using Row = std::variant<ProductTime, AttentionTime, KernelTime, CollectiveTime>;

/// What is wrong with a part of a row's name.
struct WrongWord {
  std::size_t at = 0, size = 0;  ///< bytes of the name
  std::string message, hint;
};

/// Reads the name of a row of a table that is not sources: words with blanks between them, as Group::form says. Bytes
/// may have a unit, 1MiB. What is wrong is added to `wrong`, all of it; the row is then not to be used.
Row parse_row(Table table, std::string_view name, std::vector<WrongWord>& wrong);

/// The name of a row as files have it; parse_row reads it back. A product's bias and residual have no place in it.
std::string row_name(const ProductTime& row);
std::string row_name(const AttentionTime& row);
std::string row_name(const KernelTime& row);
std::string row_name(const CollectiveTime& row);

}  // namespace shard8::machine

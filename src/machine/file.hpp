// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "machine/machine.hpp"

namespace shard8::machine {

/// Reads and checks a machine file, YAML of two levels (docs/projection.md). Throws base::Error(deck) with all errors
/// at once, each with its place: what no machine file has, values of the wrong type or out of bounds, entries without a
/// source, the same row twice, and entries that contradict each other. The rows of tables are sorted: sort_rows().
Machine read(const std::string& path);

/// As read(), for a file whose text was already read. `name` is its name in messages, and Machine::path.
Machine read_text(std::string_view text, const std::string& name);

/// The text of a machine's file, which read_text() reads back to the same machine but for `path` and lines: the same
/// numbers, and rows as sort_rows() leaves them. Groups without entries are left out. A group's `source` is the one of
/// most of its entries. Throws Error(failed) for a machine without a name or sources, for an entry that is not of its
/// sources, and for texts that a line cannot hold. Contradictions are left to the reader.
std::string write(const Machine& machine);

/// Sorts the tables by what their rows are: by kind and formats, name, or nodes, operation and ranks, then by sizes.
void sort_rows(Machine& machine);

/// All groups, keys and forms of rows: as "yaml", a file to be filled in with comments, which read_text() takes as it
/// is, or as "markdown", tables for docs/projection.md. Throws Error(deck) for another format.
std::string print_table(std::string_view format);

/// What a machine file gives, a line for each group that has entries: how many, and their sources.
std::string summary(const Machine& machine);

}  // namespace shard8::machine

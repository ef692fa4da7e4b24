// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "deck/diagnostics.hpp"
#include "deck/raw_deck.hpp"
#include "machine/fields.hpp"
#include "machine/machine.hpp"

namespace shard8::machine {

/// A part of a token, as a token of its own, so that messages show its place.
deck::Token part_of(const deck::Token& token, std::size_t at, std::size_t size);

/// Whether there is a value. Adds an error with the hint if there is none.
bool has_value(deck::Diagnostics& errors, const deck::RawEntry& entry, const std::string& hint);

/// Whether the value is one line of UTF-8. Adds an error if not. `what` is the noun for messages.
bool is_text(deck::Diagnostics& errors, const deck::Token& value, std::string_view what);

/// Reads the group `sources` of a machine file into a list, and finds the sources that entries refer to.
class SourceReader {
 public:
  SourceReader(deck::Diagnostics& errors, std::vector<Source>& sources) : errors_(errors), sources_(sources) {}

  /// Reads the group. A source whose text is wrong is added all the same: entries that refer to it are right.
  void read(const deck::RawGroup& group);

  /// The index of a source, or -1 and an error.
  int find(const deck::Token& name);

  /// The value of an entry without " @SOURCE" at its end. Sets `source` to the index of that source, else to that of
  /// the group's one; to -1, with an error, if there is neither.
  deck::Token without_source(const Group& group, const deck::RawEntry& entry, std::optional<int> of_group, int& source);

 private:
  void read_source(const deck::RawEntry& entry);

  deck::Diagnostics& errors_;
  std::vector<Source>& sources_;
  bool any_ = false;  // whether the file defines any; if not, that is an error of its own
};

/// Where the entries of a machine that is being read are in its file. Those of tables are in the order of the rows.
struct Places {
  std::vector<deck::Span> products, attention, kernels, collectives;
  std::map<std::string, deck::Span, std::less<>> figures;  ///< by "group.key"
};

/// Adds an error for entries that contradict each other: the same row twice; a collective that takes less than half the
/// time of a smaller one of the same operation and ranks; more ranks on a node than the node has devices; a product
/// more than 5 % faster than the device's peak; a kernel that moves above 256 MiB at more than 1.2 times the bandwidth
/// of the memory; an idle device that takes more than its limit of power.
void check_together(deck::Diagnostics& errors, const Machine& machine, const Places& places);

}  // namespace shard8::machine

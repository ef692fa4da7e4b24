// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "deck/fields.hpp"
#include "deck/raw_deck.hpp"
#include "machine/machine.hpp"

namespace shard8::machine {

/// The unit in which a file gives a number: 10^power of the unit that a Machine has it in, or a size as in 80GiB.
struct Unit {
  std::string_view name;
  int power = 0;
  bool size = false;
};

/// A number, and the member of a Machine that it sets: `member`, or without one Machine::slowed[slow][by].
struct Number {
  Figure Machine::*member = nullptr;
  Load slow{}, by{};
  Unit unit{};
  deck::Bounds bounds{};  ///< of the number in the file; of a size: in bytes
  bool integer = false;

  Figure& of(Machine& machine) const;
  const Figure& of(const Machine& machine) const;
};
struct Text {
  std::string Machine::*member;
};
/// One of two words; the second one stands for true.
struct Either {
  bool Machine::*member;
  std::array<std::string_view, 2> names;
  bool Machine::*given = nullptr;  ///< whether a file gives the key; null: every file does
};
/// The version of the file's format.
struct Version {};

/// One key of a group.
struct Field {
  std::string key;
  std::variant<Number, Text, Either, Version> value;
  std::string_view example;  ///< what a file to be filled in shows
  std::string help;
  bool required = false;
};

/// What the rows of a group are, if its keys are no fields but names of rows.
enum class Table { none, sources, products, attention, kernels, node_collectives, network_collectives };

struct Group {
  std::string_view name;
  std::string_view help;
  std::vector<Field> fields{};
  Table table = Table::none;
  std::string_view form{};                   ///< of a row's name: "NAME BYTES"; empty: the fields are listed
  std::string_view value = "us";             ///< of rows, or of the keys that `form` stands for
  std::vector<std::string_view> examples{};  ///< rows, as a file has them
  /// Whether entries have a source: the key `source` gives the one of all entries without their own.
  bool sourced = true;
  bool required = false;
};

/// The key of a group that names the source of its entries.
inline constexpr std::string_view kSource = "source";

/// Every group and key that a machine file may have, in the order in which they are written.
const std::vector<Group>& all_groups();
/// nullptr if there is no group of that name.
const Group* find_group(std::string_view name);
const Group& group_of(Table table);

/// A text for messages: what is allowed for a key: "a real number > 0 in GB/s".
std::string expected(const Field& field);

/// The key "group.key" of a figure of a machine.
std::string key_of(const Machine& machine, const Figure& figure);
/// A value of a figure as a file has it, with its unit: "0 us".
std::string value_text(const Machine& machine, const Figure& figure, double value);

/// A field's value as a file has it, without source: shortest, and read back as the same number. Empty for what the
/// file does not give.
std::string value_text(const Field& field, const Machine& machine);

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

/// Where the entries of a machine that is being read are in its file. The entries of tables are in the order of the
/// rows.
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

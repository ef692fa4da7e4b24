// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "deck/number.hpp"
#include "machine/fields.hpp"
#include "machine/file.hpp"

namespace shard8::machine {
namespace {

/// An entry of a group: its name, its value as text, and its source; -1: none is needed.
struct Line {
  std::string name, value;
  int source = -1;
};

/// The text in single quotes; quotes in it are doubled.
std::string quoted(const std::string& text, const std::string& what) {
  const bool control =
      std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  SHARD8_REQUIRE(!control && base::is_utf8(text), "{} is not one line of UTF-8: '{}'", what, base::quotable(text));
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

template <class T>
void add_rows(std::vector<Line>& lines, const std::vector<T>& rows) {
  for (const T& row : rows) lines.push_back({row_name(row), deck::format_scaled(row.seconds, -6), row.source});
}

std::vector<Line> rows_of(Table table, const Machine& m) {
  std::vector<Line> lines;
  if (table == Table::sources)
    for (const Source& source : m.sources)
      lines.push_back(
          {source.name, quoted(fmt::format("{}: {}", name_of(source.kind), source.text), "a source's text"), -1});
  if (table == Table::products) add_rows(lines, m.products);
  if (table == Table::attention) add_rows(lines, m.attention);
  if (table == Table::kernels) add_rows(lines, m.kernels);
  if (table == Table::node_collectives || table == Table::network_collectives) {
    std::vector<CollectiveTime> rows;
    for (const CollectiveTime& row : m.collectives)
      if ((row.nodes > 1) == (table == Table::network_collectives)) rows.push_back(row);
    add_rows(lines, rows);
  }
  return lines;
}

std::vector<Line> fields_of(const Group& group, const Machine& machine) {
  std::vector<Line> lines;
  for (const Field& field : group.fields) {
    std::string value = value_text(field, machine);
    if (value.empty() && !field.required) continue;
    const auto* const number = std::get_if<Number>(&field.value);
    if (std::holds_alternative<Text>(field.value)) value = quoted(value, fmt::format("{}.{}", group.name, field.key));
    lines.push_back({field.key, value, number != nullptr ? number->of(machine).source : -1});
  }
  return lines;
}

/// The source of most lines, of several the first in the list of sources; -1 if no line has one.
int most_frequent(const std::vector<Line>& lines) {
  std::map<int, int> counts;
  for (const Line& line : lines)
    if (line.source >= 0) ++counts[line.source];
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? -1 : most->first;
}

std::string text_of(const Group& group, const std::vector<Line>& lines, const Machine& machine) {
  const auto name = [&](int source) -> const std::string& {
    SHARD8_REQUIRE(source < static_cast<int>(machine.sources.size()), "group '{}' has source {} of {}", group.name,
                   source, machine.sources.size());
    return machine.sources[static_cast<std::size_t>(source)].name;
  };
  std::string out = fmt::format("{}:\n", group.name);
  const int common = most_frequent(lines);
  if (common >= 0) out += fmt::format("  {}: {}\n", kSource, name(common));
  for (const Line& line : lines) {
    out += fmt::format("  {}: {}", line.name, line.value);
    if (line.source >= 0 && line.source != common) out += fmt::format(" @{}", name(line.source));
    out += '\n';
  }
  return out;
}

auto order(const operation::Format& format) { return std::tie(format.dtype, format.scaling, format.transposed); }

auto order(const ProductTime& row) {
  const operation::Product& p = row.product;
  return std::tuple_cat(std::tie(p.kind), order(p.left), order(p.right),
                        std::tie(p.out, p.accumulate, p.rows, p.cols, p.inner, p.groups));
}
auto order(const AttentionTime& row) {
  return std::tie(row.attention.backward, row.attention.dtype, row.attention.shape);
}
auto order(const KernelTime& row) { return std::tie(row.name, row.bytes); }
auto order(const CollectiveTime& row) { return std::tie(row.nodes, row.op, row.ranks, row.bytes); }

template <class T>
void sort(std::vector<T>& rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const T& a, const T& b) { return order(a) < order(b); });
}

}  // namespace

void sort_rows(Machine& machine) {
  sort(machine.products);
  sort(machine.attention);
  sort(machine.kernels);
  sort(machine.collectives);
}

std::string write(const Machine& machine) {
  SHARD8_REQUIRE(!machine.name.empty() && !machine.sources.empty(), "a machine has a name and sources");
  Machine sorted = machine;
  sort_rows(sorted);
  std::string out;
  for (const Group& group : all_groups()) {
    const auto lines = group.table != Table::none ? rows_of(group.table, sorted) : fields_of(group, sorted);
    for (const Line& line : lines)
      SHARD8_REQUIRE(line.source >= 0 || group.table == Table::none || group.table == Table::sources,
                     "'{}' of group '{}' has no source", line.name, group.name);
    if (!lines.empty()) out += fmt::format("{}{}", out.empty() ? "" : "\n", text_of(group, lines, sorted));
  }
  return out;
}

}  // namespace shard8::machine

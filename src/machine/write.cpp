// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "deck/number.hpp"
#include "machine/fields.hpp"
#include "machine/machine.hpp"

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

std::string_view name_of(Source::Kind kind) {
  constexpr std::string_view names[] = {"measured", "imported", "datasheet", "chosen"};
  return names[static_cast<int>(kind)];
}

std::string_view name_of(Load load) {
  constexpr std::string_view names[] = {"product", "attention", "kernel", "collective", "copies", "sums"};
  return names[static_cast<int>(load)];
}

int Machine::add_source(Source::Kind kind, const std::string& source_name, const std::string& text) {
  std::string free = source_name;
  for (int next = 2;; ++next) {
    int same_name = -1;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (sources[i].name != free) continue;
      if (sources[i].kind == kind && sources[i].text == text) return static_cast<int>(i);
      same_name = static_cast<int>(i);
    }
    if (same_name < 0) break;
    free = source_name + "_" + std::to_string(next);
  }
  sources.push_back({free, kind, text});
  return static_cast<int>(sources.size()) - 1;
}

namespace {

constexpr std::size_t kWidth = 96;

/// The text as comment lines.
std::string comment(const std::string& indent, std::string_view text) {
  std::string out, line = indent + "#";
  while (!text.empty()) {
    const auto end = std::min(text.find(' '), text.size());
    if (line.size() + 1 + end > kWidth) {
      out += line + '\n';
      line = indent + "#";
    }
    line += fmt::format(" {}", text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out + line + '\n';
}

std::string template_of(const Group& group) {
  std::string out = comment("", group.help) + std::string(group.name) + ":\n";
  if (group.sourced) out += comment("  ", "the source of entries without their own") + comment("  ", "source: here");
  if (!group.form.empty()) {
    if (group.sourced) out += comment("  ", fmt::format("{}: {}", group.form, group.value));
    for (const std::string_view example : group.examples)
      out += fmt::format("  {}{}\n", group.required ? "" : "# ", example);
    return out;
  }
  for (const Field& field : group.fields) {
    out += comment("  ", fmt::format("{} - {}{}", expected(field), field.help, field.required ? ", required" : ""));
    out += fmt::format("  {}{}: {}\n", field.required ? "" : "# ", field.key, field.example);
  }
  return out;
}

std::string template_file() {
  std::string out = comment("", "A machine file to be filled in: take the # away from the lines that are known.");
  for (const Group& group : all_groups()) out += '\n' + template_of(group);
  return out;
}

/// What a field's value is, as a table shows it.
std::string value_of(const Field& field) {
  if (std::holds_alternative<Version>(field.value)) return fmt::format("`{}`", kFormat);
  if (std::holds_alternative<Text>(field.value)) return "text";
  if (const auto* either = std::get_if<Either>(&field.value))
    return fmt::format("`{}`, `{}`", either->names[0], either->names[1]);
  const auto& number = std::get<Number>(field.value);
  if (number.unit.size) return fmt::format("size, `{}`", field.example);
  if (number.integer) return "integer";
  return number.unit.name.empty() ? "real" : std::string(number.unit.name);
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string markdown() {
  std::string out;
  for (const Group& group : all_groups()) {
    out += fmt::format("{}### {}\n\n{}\n\n", out.empty() ? "" : "\n", group.name, escaped(group.help));
    if (!group.form.empty()) {
      out += "entry | value | for example\n---|---|---\n";
      std::string examples;
      for (const std::string_view example : group.examples)
        examples += fmt::format("{}`{}`", examples.empty() ? "" : "<br>", example);
      out += fmt::format("`{}` | {} | {}\n", escaped(group.form), group.value, examples);
      continue;
    }
    out += "key | value | meaning\n---|---|---\n";
    for (const Field& field : group.fields)
      out +=
          fmt::format("`{}` | {} | {}{}\n", field.key, value_of(field), field.help, field.required ? "; required" : "");
  }
  return out;
}

/// The sources of a group's entries, by how often they are referred to.
class Sources {
 public:
  explicit Sources(const Machine& machine) : machine_(machine) {}

  void add(int source) {
    ++entries_;
    ++counts_[source];
  }
  template <class Rows>
  void add_rows(const Rows& rows) {
    for (const auto& row : rows) add(row.source);
  }
  std::int64_t entries() const { return entries_; }
  std::string text() const {
    std::string out;
    for (const auto& [source, count] : counts_) {
      const Source& one = machine_.sources[static_cast<std::size_t>(source)];
      out += fmt::format("{}{} ({}{})", out.empty() ? "" : ", ", one.name, name_of(one.kind),
                         counts_.size() > 1 ? fmt::format(", {}", count) : "");
    }
    return out;
  }

 private:
  const Machine& machine_;
  std::int64_t entries_ = 0;
  std::map<int, int> counts_;
};

Sources sources_of(const Group& group, const Machine& m) {
  Sources sources(m);
  for (const Field& field : group.fields)
    if (const auto* number = std::get_if<Number>(&field.value))
      if (const Figure& figure = number->of(m); figure.given()) sources.add(figure.source);
  if (group.table == Table::products) sources.add_rows(m.products);
  if (group.table == Table::attention) sources.add_rows(m.attention);
  if (group.table == Table::kernels) sources.add_rows(m.kernels);
  for (const CollectiveTime& row : m.collectives)
    if (group.table == (row.nodes > 1 ? Table::network_collectives : Table::node_collectives)) sources.add(row.source);
  return sources;
}

}  // namespace

std::string print_table(std::string_view format) {
  if (format == "yaml") return template_file();
  if (format == "markdown") return markdown();
  base::fail(base::ExitCode::deck, "unknown format '{}' of machine files; expected yaml or markdown",
             base::quotable(format));
}

std::string summary(const Machine& machine) {
  std::string out = fmt::format("{}: {}, {}{}{}, {}\n", machine.path, machine.name, machine.device ? "cuda" : "host",
                                machine.device_name.empty() ? "" : ", ", machine.device_name,
                                base::count(static_cast<std::int64_t>(machine.sources.size()), "source", "sources"));
  for (const Group& group : all_groups()) {
    const Sources sources = sources_of(group, machine);
    if (sources.entries() > 0)
      out += fmt::format("  {:<20} {:>6} {}  {}\n", group.name, sources.entries(),
                         sources.entries() == 1 ? "entry  " : "entries", sources.text());
  }
  return out;
}

}  // namespace shard8::machine

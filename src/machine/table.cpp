// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "machine/file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <variant>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "machine/fields.hpp"

namespace shard8::machine {
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

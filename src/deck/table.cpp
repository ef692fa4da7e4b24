// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/table.hpp"

#include <fmt/format.h>

#include <vector>

#include "base/error.hpp"
#include "deck/fields.hpp"
#include "deck/nearest.hpp"
#include "deck/table_markdown.hpp"

namespace shard8::deck {
namespace {

constexpr std::size_t kWidth = 96;

// How a syntax writes what the two share.
struct Style {
  std::string comment;
  std::string open;    // before a group's name
  std::string opened;  // after it
  std::string close;
  std::string equals;  // between key and value
  Spelling spelling;
};

const Style kYaml = {"#", "", ":", "", ":", Spelling::yaml};
const Style kNamelist = {"!", "&", "", "/\n", " =", Spelling::namelist};

std::string wrapped(const Style& style, const std::string& indent, std::string_view text) {
  std::string out;
  std::string line = indent + style.comment;
  while (!text.empty()) {
    const auto end = text.find(' ');
    const std::string_view word = text.substr(0, end);
    if (line.size() + 1 + word.size() > kWidth) {
      out += line + '\n';
      line = indent + style.comment;
    }
    line += ' ';
    line += word;
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return out + line + '\n';
}

std::string describe_field(const Field& field) {
  std::string text = expected(field);
  if (!field.unit.empty()) text += fmt::format(" [{}]", field.unit);
  text += field.required ? ", required" : ", default " + default_text(field);
  return fmt::format("{} - {}", text, field.help);
}

std::string template_of(const Group& group, const Style& style) {
  std::string out = wrapped(style, "", group.help);
  out += style.open + std::string(group.name) + style.opened + '\n';
  for (const Field& field : group.fields) {
    out += wrapped(style, "  ", describe_field(field));
    if (field.required) {
      out += fmt::format("  {}{}\n", field.key, style.equals);
    } else if (field.default_note.empty()) {
      out += fmt::format("  {}{} {}\n", field.key, style.equals, spelled(field, Config{}, style.spelling));
    } else {
      out += fmt::format("  {} {}{}\n", style.comment, field.key, style.equals);
    }
  }
  return out + style.close;
}

[[noreturn]] void unknown(std::string_view what, std::string_view name, const std::vector<std::string_view>& names) {
  const auto near = nearest(name, names);
  base::fail(base::ExitCode::deck, "unknown {} '{}'; {}expected {}", what, name,
             near.empty() ? "" : fmt::format("did you mean '{}'? ", near), list_of(names));
}

}  // namespace

std::string print_table(std::string_view format, std::string_view group) {
  if (format == "markdown") return markdown_page();
  if (format != "yaml" && format != "nml") unknown("format", format, {"yaml", "nml", "markdown"});
  const Style& style = format == "yaml" ? kYaml : kNamelist;
  std::vector<std::string_view> names;
  std::string out;
  for (const Group& one : all_groups()) {
    names.push_back(one.name);
    if (!group.empty() && one.name != group) continue;
    if (!out.empty()) out += '\n';
    out += template_of(one, style);
  }
  if (out.empty()) unknown("group", group, names);
  return out;
}

}  // namespace shard8::deck

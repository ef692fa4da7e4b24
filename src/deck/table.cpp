// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/fields.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace shard8::deck {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value, bool integer) { return integer ? Json(static_cast<std::int64_t>(value)) : Json(value); }

void add_bounds(Json& schema, const Bounds& bounds, bool integer) {
  if (std::isfinite(bounds.low)) schema[bounds.open_low ? "exclusiveMinimum" : "minimum"] = number(bounds.low, integer);
  if (std::isfinite(bounds.high))
    schema[bounds.open_high ? "exclusiveMaximum" : "maximum"] = number(bounds.high, integer);
  else if (integer)
    schema["maximum"] = kMostInteger;
}

/// The value of a deck's key as JSON.
struct Default {
  const Config config{};
  Json operator()(const ChoiceAccess& member) const {
    return std::string(member.names[static_cast<std::size_t>(member.get(config))]);
  }
  template <class T>
  Json operator()(Access<T> member) const {
    Config copy = config;
    return Json(member(copy));
  }
};

Json schema_of(const Field& field) {
  constexpr const char* kTypes[] = {"integer", "integer", "number", "boolean", "string", "string"};
  const std::size_t kind = field.access.index();
  Json schema{{"type", kTypes[kind]}};
  if (const auto* choice = std::get_if<ChoiceAccess>(&field.access)) {
    schema["enum"] = Json::array();
    for (const std::string_view name : choice->names) schema["enum"].push_back(std::string(name));
  }
  if (kind == 1) schema["minimum"] = 0;
  if (field.not_empty) schema["minLength"] = 1;
  if (kind == 0 || kind == 2) {
    Json bounds = Json::object();
    add_bounds(bounds, field.bounds, kind == 0);
    if (field.automatic) {
      schema.erase("type");
      bounds["type"] = "integer";
      schema["anyOf"] = {Json{{"const", "auto"}}, bounds};
    } else if (field.bounds.or_zero)
      schema["anyOf"] = {Json{{"const", 0}}, bounds};
    else
      schema.update(bounds);
  }
  std::string description(field.help);
  if (!field.unit.empty()) description += fmt::format(" [{}]", field.unit);
  if (!field.default_note.empty()) description += fmt::format(" (default: {})", field.default_note);
  schema["description"] = description;
  if (!field.required && field.default_note.empty()) schema["default"] = std::visit(Default{}, field.access);
  return schema;
}

/// A JSON schema (draft 2020-12) of YAML decks, from the table of fields: names, types, bounds, choices, defaults and
/// required keys. Checks that involve several keys are not in it, nor numbers as Fortran spells them.
std::string json_schema() {
  Json schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "a deck of shard8"}};
  schema["type"] = "object";
  schema["additionalProperties"] = false;
  Json groups = Json::object(), required_groups = Json::array();
  for (const Group& group : all_groups()) {
    Json keys = Json::object(), required = Json::array();
    std::vector<std::string_view> either;  // of two keys one is needed
    for (const Field& field : group.fields) {
      keys[std::string(field.key)] = schema_of(field);
      if (field.required && field.instead.empty()) required.push_back(std::string(field.key));
      if (!field.instead.empty()) either = {field.key, field.instead};
    }
    Json one{{"type", "object"}, {"description", std::string(group.help)}, {"additionalProperties", false}};
    if (!required.empty()) {
      one["required"] = required;
      required_groups.push_back(std::string(group.name));
    }
    for (const std::string_view key : either) one["anyOf"].push_back({{"required", Json::array({std::string(key)})}});
    one["properties"] = std::move(keys);
    groups[std::string(group.name)] = std::move(one);
  }
  schema["required"] = std::move(required_groups);
  schema["properties"] = std::move(groups);
  return schema.dump(2) + '\n';
}

constexpr std::size_t kWidth = 96;

// How a deck to be filled in is written in one of the two spellings.
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
  text += ", " + (field.required ? required_text(field) : "default " + default_text(field));
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

constexpr std::string_view kPreface =
    R"(# The deck

<!-- Generated from the table of fields; to change it: shard8 deck --format markdown > docs/deck.md -->

A deck says what is trained, on which mesh, and how the result is judged. It has two spellings:

    mesh:                  # YAML: files ending in .yaml or .yml
      shard: 2
      tensor: 2

    &mesh                  ! Fortran namelists: files ending in .nml
      shard = 2, tensor = 2
    /

    shard8 deck [GROUP] [--format yaml|nml]      # every key, as a deck to fill in
    shard8 deck --format schema                  # a JSON schema, for editors
    shard8 convert DECK --to yaml|nml            # the deck in the other spelling
    shard8 check DECK                            # what would run, or every error; only run reads all weights
    shard8 check DECK --files                    # KEY PATH of each file and folder that a run writes
    shard8 run DECK mesh.tensor=4 run.steps=10   # other values; the last one of a key counts

- Numbers are decimal: `256`, `3.0e-4`, `3.0d-4`; not `010`, `1_000`, `0x10`, or `1e3` as an integer.
- Logical values are `true` and `false`, or as in Fortran `.true.`, `.false.`, `t` and `f`.
- Namelists: names in any case, texts and choices in quotes, a group ends with `/` or `&end`; arrays, repeats (`2*1`),
  components and empty values are errors.
- YAML: lists, deeper levels, tags, anchors, several documents and repeated keys are errors.
- Input files are looked for in the working directory, then in the deck's folder. `output.dir` and `checkpoint.dir` are
  relative to the working directory and made if missing.
- On the command line `data.batch` and `data.batch_per_rank` replace each other.

All errors are printed at once, with exit code 2, before a device or another file is touched:

    inputs/tiny.yaml:14:3: error: unknown key 'tensr' in group 'mesh'
       14 |   tensr: 2
          |   ^~~~~  did you mean 'tensor'?

A key without effect, such as `fp8.margin` without the recipe `delayed`, is a warning. In the tables numbers are integers
unless called real; the schema has the exact bounds.
)";

/// The values that a field takes, as the page shows them: shorter than expected(), which messages show. The unit is
/// left out where the key's meaning names it.
std::string values_of(const Field& field) {
  if (const auto* choice = std::get_if<ChoiceAccess>(&field.access)) {
    std::string names;
    for (const auto name : choice->names) names += fmt::format("{}`{}`", names.empty() ? "" : ", ", name);
    return names;
  }
  if (std::holds_alternative<Access<bool>>(field.access)) return "logical";
  if (std::holds_alternative<Access<std::string>>(field.access)) return field.not_empty ? "text, not empty" : "text";
  const bool real = std::holds_alternative<Access<double>>(field.access);
  const Bounds& bounds = field.bounds;
  std::string text = real ? "real " : "";
  const bool ranged = std::isfinite(bounds.high) && (!real || (bounds.low > 0 && bounds.high < kMostFloat));
  if (real && bounds.low > 0 && !ranged) {
    text = bounds.or_zero ? "0 or real > 0" : "real > 0";  // from the smallest to the largest number of FP32
  } else if (ranged) {
    text += fmt::format("{} to {}", bounds.low, bounds.high);
  } else {
    text += fmt::format(">= {}", std::isfinite(bounds.low) ? bounds.low : 0.0);  // an unsigned integer has no bounds
    if (bounds.high <= 1) text += fmt::format(" and {} {}", bounds.open_high ? "<" : "<=", bounds.high);
  }
  if (field.automatic) text += ", `auto`";
  const bool named = field.unit.empty() || field.help.find(field.unit) != std::string_view::npos;
  return named ? text : fmt::format("{} ({})", text, field.unit);
}

std::string row(const Field& field) {
  std::string standard = required_text(field);
  if (!field.required) {
    const bool value = field.default_note.empty();
    standard = value ? fmt::format("`{}`", default_text(field)) : default_text(field);
  }
  return fmt::format("`{}` | {} | {} | {}\n", field.key, values_of(field), standard, field.help);
}

std::string markdown_page() {
  std::string page(kPreface);
  for (const Group& group : all_groups()) {
    page += fmt::format(
        "\n## {}\n\n{}\n\nkey | value | default | meaning\n"
        "---|---|---|---\n",
        group.name, group.help);
    for (const Field& field : group.fields) page += row(field);
  }
  return page;
}

}  // namespace

std::string print_table(std::string_view format, std::string_view group) {
  if (format == "markdown") return markdown_page();
  if (format == "schema") return json_schema();
  if (format != "yaml" && format != "nml") unknown("format", format, {"yaml", "nml", "markdown", "schema"});
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

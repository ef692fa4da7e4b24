// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/table.hpp"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "deck/fields.hpp"
#include "deck/schema.hpp"

namespace shard8::deck {
namespace {

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

A deck says what is trained, on which mesh, and how the end is judged. It has two levels, groups
and keys with one value each, and two spellings:

YAML, in files ending in `.yaml` or `.yml`:

    mesh:
      shard: 2   # a comment
      tensor: 2

Fortran namelists, in files ending in `.nml`:

    &mesh
      shard = 2, ! a comment
      tensor = 2
    /

Both are read into the same table, the one below, which `shard8 deck [GROUP] [--format yaml|nml]`
prints as a deck to be filled in. `shard8 convert DECK --to yaml|nml` prints a deck in the other
spelling. `shard8 deck --format schema` prints a JSON schema, with which editors check YAML decks.

- Numbers are decimal: `256`, `3.0e-4`, `3.0d-4`. Logical values are `true` and `false`, `.true.`
  and `.false.`, `t` and `f`. Not numbers: `010`, `1_000`, `0x10`, `3abc`; `1e3` is no integer.
- In namelists names may be in any case, texts and choices stand in quotes, a group ends with `/`
  or `&end`. Arrays, repeats (`2*1`), components and empty values are errors.
- In YAML lists, deeper levels, tags, anchors and several documents are errors.
- A key or group that is not in the table is an error, and so is one that stands twice.
- Keys can be changed on the command line: `shard8 run DECK mesh.tensor=4 run.steps=10`. The value
  is all that follows `=`; no quotes are taken off. Of one key given several times the last value
  counts.
- Files are looked for from the working directory, then from the deck's folder.

All errors are told at once, before any device or other file is touched, and the exit code is 2:

    inputs/tiny.yaml:14:3: error: unknown key 'tensr' in group 'mesh'
       14 |   tensr: 2
          |   ^~~~~  did you mean 'tensor'?

A key that nothing reads as the others stand (`fp8.margin` without the recipe `delayed`) is no error: a
warning of the same form says so.

`shard8 check DECK` looks at data, weights and folders as well, as a run does, and says what would run.

`shard8 check DECK --files` is for scripts. It prints only where a run writes, a line `KEY PATH` for each: `output.dir`,
`output.summary`, `output.metrics`, `output.timing`, `output.timing_ranks`, `ranks` (ranks.csv), `training` (training.json)
and `checkpoint.dir`; keys that are off are left out. Paths hold no newlines. `--ranks=N` goes with it. Whether the run could
start is not checked.

At step s, counted from 0, the learning rate is `lr * (s + 1) / warmup` while s < warmup, then with
N = decay_steps `min_lr + (lr - min_lr) / 2 * (1 + cos(pi * (s - warmup) / (N - warmup)))`, and
min_lr from step N on.
)";

std::string row(const Field& field) {
  const bool choice = std::holds_alternative<ChoiceAccess>(field.slot);
  std::string allowed = expected(field);
  if (choice) {
    allowed.clear();
    for (const auto name : std::get<ChoiceAccess>(field.slot).names) {
      allowed += fmt::format("{}`{}`", allowed.empty() ? "" : ", ", name);
    }
  }
  std::string standard = required_text(field);
  if (!field.required) {
    const bool value = field.default_note.empty();
    standard = value ? fmt::format("`{}`", default_text(field)) : default_text(field);
  }
  return fmt::format("| `{}` | {} | {} | {} | {} |\n", field.key, allowed, standard, field.unit, field.help);
}

std::string markdown_page() {
  std::string page(kPreface);
  for (const Group& group : all_groups()) {
    page += fmt::format(
        "\n## {}\n\n{}\n\n| key | value | default | unit | meaning |\n"
        "|---|---|---|---|---|\n",
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

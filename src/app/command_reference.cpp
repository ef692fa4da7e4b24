// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>

#include "app/command_table.hpp"

namespace shard8::app {

namespace {

/// A text in a cell of a table, in which '|' ends the cell.
std::string in_cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

/// "<br>`--runs`: how often (5)"
std::string option_text(const ArgumentEntry& option) {
  // The long name says more.
  std::string text = fmt::format("<br>`{}`: {}", option.names.back(), in_cell(option.help));
  // Most texts of options with choices say them.
  const bool said = std::ranges::all_of(
      option.choices, [&](const std::string& choice) { return option.help.find(choice) != std::string::npos; });
  if (!said) text += fmt::format(": {}", in_cell(fmt::format("{}", fmt::join(option.choices, ", "))));
  if (option.required) text += " (required)";
  if (!option.default_text.empty()) text += fmt::format(" ({})", in_cell(option.default_text));
  return text;
}

/// The row of a command: what is typed; what it does, and its options.
std::string row_of(const CommandEntry& command) {
  std::string usage = "shard8 " + command.name();
  for (const ArgumentEntry& positional : command.positionals) {
    const std::string many = positional.many ? " ..." : "";
    usage += positional.required ? fmt::format(" {}{}", positional.names.front(), many)
                                 : fmt::format(" [{}{}]", positional.names.front(), many);
  }
  std::string row = fmt::format("`{}` | {}", in_cell(usage), in_cell(command.help));
  for (const ArgumentEntry& option : command.options)
    if (option.names.back() != "--help") row += option_text(option);
  return row + '\n';
}

}  // namespace

std::string command_reference(const std::vector<CommandEntry>& table) {
  std::string page =
      "# Commands\n\n"
      "<!-- Generated from the program's command line; to change it: shard8 man --format markdown > docs/commands.md "
      "-->\n\n"
      "`group.key=value` replaces a value of the deck. `run`, `bench` and `calibrate` are started by mpiexec or srun, "
      "one "
      "process a rank; the\nother commands use one process. `shard8 COMMAND --help` prints an example, too. Values in "
      "parentheses are "
      "defaults.\n\n"
      "command | what it does, and its options\n---|---\n";
  for (const CommandEntry& command : table)
    if (!command.words.empty() && command.subcommands.empty()) page += row_of(command);
  return page;
}

}  // namespace shard8::app

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace shard8::app {

/// One option of a command, or one positional argument.
struct ArgumentEntry {
  std::vector<std::string> names;  ///< "-h" and "--help"; of a positional argument one, "DECK"
  std::string help;
  std::string default_text;          ///< empty: none
  std::vector<std::string> choices;  ///< all values that are allowed; empty: any
  bool takes_value = true;
  bool required = false;
  bool many = false;  ///< takes several values
};

/// One command with all that it takes.
struct CommandEntry {
  std::vector<std::string> words;  ///< {"ckpt", "list"}; of the program itself empty
  std::string help;
  std::vector<ArgumentEntry> options;
  std::vector<ArgumentEntry> positionals;
  std::vector<std::string> subcommands;

  std::string name() const;  ///< "ckpt list"
};

/// The commands of a command line, the program itself first, each before its subcommands. Hidden commands (of the empty
/// group) are left out.
std::vector<CommandEntry> command_table(const CLI::App& app);

/// The man page shard8(1), in the macros of man(7).
std::string man_page(const std::vector<CommandEntry>& table);

/// The commands and their options as a page in markdown: docs/commands.md.
std::string command_reference(const std::vector<CommandEntry>& table);

/// A script that completes commands, options, their values and keys of decks. `shell` is "bash", "zsh" or "fish".
std::string completions(const std::vector<CommandEntry>& table, const std::string& shell);

}  // namespace shard8::app

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace shard8::app {

/// Prints to standard error what is wrong with a command line that `app` refused with `error`, and which commands there
/// are. The commands that are named exist, up to the first that does not. Returns the process's exit code.
int usage_error(const CLI::App& app, int argc, char** argv, const CLI::ParseError& error);

}  // namespace shard8::app

namespace shard8::app {

/// Why `text` is not a finite number from `low` to `high`; empty if it is one. An infinite `high` is no bound.
std::string problem_of_number(const std::string& text, double low, double high);
/// Why `text` is not a whole number from `low` to `high`; empty if it is one.
std::string problem_of_whole(const std::string& text, std::int64_t low, std::int64_t high);

/// Checks of the values of options. CLI::Range and CLI::NonNegativeNumber let NaN pass: each of its comparisons is
/// false.
CLI::Validator number_from(double low, double high = std::numeric_limits<double>::infinity());
CLI::Validator whole_from(std::int64_t low, std::int64_t high = std::numeric_limits<std::int32_t>::max());

/// An option's value that may not be empty: a variable that was not set in a job script.
CLI::Validator not_empty();

}  // namespace shard8::app

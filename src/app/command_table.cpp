// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/command_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "base/version.hpp"
#include "deck/fields.hpp"

namespace shard8::app {
namespace {

/// The values of an option that CLI::IsMember checks: CLI11 keeps them as "{a,b}" in the name of the type.
std::vector<std::string> choices_of(const CLI::Option& option, const std::string& name) {
  std::vector<std::string> choices;
  if (name == "GROUP")
    for (const deck::Group& group : deck::all_groups()) choices.emplace_back(group.name);
  const std::string type = option.get_type_name();
  const std::size_t open = type.find('{'), close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) return choices;
  for (std::size_t at = open + 1; at < close;) {
    const std::size_t end = std::min(type.find(',', at), close);
    choices.push_back(type.substr(at, end - at));
    at = end + 1;
  }
  return choices;
}

ArgumentEntry entry_of(const CLI::Option& option) {
  ArgumentEntry entry;
  const bool positional = option.nonpositional() == false;
  if (positional) entry.names.push_back(option.get_name(true, false));
  for (const std::string& name : option.get_snames())
    if (!positional) entry.names.push_back('-' + name);
  for (const std::string& name : option.get_lnames())
    if (!positional) entry.names.push_back("--" + name);
  entry.help = option.get_description();
  entry.default_text = option.get_default_str();
  entry.choices = choices_of(option, entry.names.front());
  entry.takes_value = option.get_items_expected_max() > 0;
  entry.required = option.get_required();
  entry.many = option.get_items_expected_max() > 1;
  if (!entry.takes_value) entry.default_text.clear();
  return entry;
}

void collect(const CLI::App& app, std::vector<std::string> words, std::vector<CommandEntry>& table) {
  CommandEntry entry;
  entry.words = words;
  entry.help = app.get_description();
  for (const CLI::Option* option : app.get_options())
    (option->nonpositional() ? entry.options : entry.positionals).push_back(entry_of(*option));
  const auto shown = app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
  for (const CLI::App* command : shown) entry.subcommands.push_back(command->get_name());
  table.push_back(std::move(entry));
  for (const CLI::App* command : shown) {
    auto below = words;
    below.push_back(command->get_name());
    collect(*command, std::move(below), table);
  }
}

}  // namespace

std::string CommandEntry::name() const {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::vector<CommandEntry> command_table(const CLI::App& app) {
  std::vector<CommandEntry> table;
  collect(app, {}, table);
  return table;
}

namespace {

/// A text that roff prints as it is.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

/// A help text as a sentence. The help texts of arguments may begin with a value, whose letters stay as they are.
std::string closed(std::string text) {
  if (!text.empty() && text.back() != '.') text += '.';
  return text;
}

std::string sentence(std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z') text.front() = static_cast<char>(text.front() - 32);
  return closed(std::move(text));
}

/// "DECK [group.key=value ...]"
std::string usage_of(const ArgumentEntry& positional) {
  const std::string text = positional.names.front() + (positional.many ? " ..." : "");
  return positional.required ? text : '[' + text + ']';
}

std::string notes_of(const ArgumentEntry& argument) {
  std::string notes = closed(argument.help);
  if (!argument.choices.empty()) notes += fmt::format(" One of: {}.", fmt::join(argument.choices, ", "));
  if (!argument.default_text.empty()) notes += fmt::format(" Default: {}.", argument.default_text);
  return notes;
}

void add_argument(std::string& page, const ArgumentEntry& argument, bool positional) {
  std::string names;
  for (const std::string& name : argument.names)
    names += fmt::format("{}\\fB{}\\fR", names.empty() ? "" : ", ", roff(name));
  if (!positional && argument.takes_value) names += " \\fIVALUE\\fR";
  page += fmt::format(".TP\n{}\n{}\n", names, roff(notes_of(argument)));
}

void add_command(std::string& page, const CommandEntry& command) {
  std::string line = "shard8 " + command.name();
  if (!command.options.empty()) line += " [options]";
  for (const ArgumentEntry& positional : command.positionals) line += ' ' + usage_of(positional);
  page += fmt::format(".SS \"{}\"\n{}\n", roff(line), roff(sentence(command.help)));
  for (const ArgumentEntry& positional : command.positionals) add_argument(page, positional, true);
  for (const ArgumentEntry& option : command.options) add_argument(page, option, false);
}

}  // namespace

std::string man_page(const std::vector<CommandEntry>& table) {
  const CommandEntry& program = table.front();
  std::string page = fmt::format(
      ".TH SHARD8 1 \"\" \"shard8 {}\" \"User Commands\"\n.SH NAME\nshard8 \\- {}\n"
      ".SH SYNOPSIS\n.B shard8\n.I COMMAND\n[\\fIoptions\\fR] [\\fIarguments\\fR]\n",
      roff(std::string(base::version().number)), roff(program.help.substr(program.help.find(": ") + 2)));
  page += R"(.SH DESCRIPTION
.B shard8
is an MPI mini\-app: it trains a transformer with sharded weights and tensor parallelism as a deck says, and reports
where the time of a step and every byte went. A deck is a YAML file or a file of Fortran namelists. An argument
\fIgroup.key=value\fR replaces a value of the deck. \fBshard8 deck\fR prints every key.
.PP
\fBrun\fR, \fBbench\fR and \fBcalibrate\fR are started by mpiexec or srun, one process a rank. The other commands use one process.
.SH OPTIONS
)";
  for (const ArgumentEntry& option : program.options) add_argument(page, option, false);
  page += ".SH COMMANDS\n";
  for (const CommandEntry& command : table)
    if (!command.words.empty() && command.subcommands.empty()) add_command(page, command);
  page += R"(.SH EXIT STATUS
Every rank exits with the same status.
.TP
.B 0
Done.
.TP
.B 2
A bad deck or bad usage.
.TP
.B 3
Ranks, devices or libraries are not as needed.
.TP
.B 4
A checkpoint is unusable.
.TP
.B 5
Failed while running.
.TP
.B 6
The run ended, but its verification failed.
.TP
.B 75
Stopped early with a checkpoint written: run again to continue.
.SH FILES
In the folder \fIoutput.dir\fR of the deck:
.TP
.I metrics.jsonl
One object a step: loss, gradient norm, learning rate, tokens, time.
.TP
.I timing.csv
The phases of every step.
.TP
.I summary.json
The report with deck, versions and hosts.
.SH EXAMPLE
.nf
mpiexec \-n 4 shard8 run quickstart.yaml run.steps=100
.fi
)";
  return page;
}

namespace {

/// The names of the commands below `app`.
std::vector<std::string> names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

/// A hint for an unknown word: "did you mean 'run'? there are run, check, ...". The question is left out where no name
/// is near.
std::string offer(const std::string& word, const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view near = deck::nearest(word, views);
  return fmt::format("{}there are {}", near.empty() ? "" : fmt::format("did you mean '{}'? ", near),
                     fmt::join(names, ", "));
}

/// A question for the first of the words that is no option of the command, but near the name of one.
std::string offer_option(const CLI::App& command, std::span<char* const> words) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  const std::vector<std::string_view> views(names.begin(), names.end());
  for (const std::string_view word : words) {
    const std::string_view name = word.substr(0, word.find('='));
    if (!name.starts_with("--") || std::find(views.begin(), views.end(), name) != views.end()) continue;
    const std::string_view near = deck::nearest(name, views);
    if (!near.empty()) return fmt::format("; did you mean '{}' for '{}'?", near, name);
  }
  return {};
}

}  // namespace

int usage_error(const CLI::App& app, int argc, char** argv, const CLI::ParseError& error) {
  const CLI::App* command = &app;
  std::string name = "shard8", problem;
  for (int i = 1; problem.empty(); ++i) {
    const auto names = names_of_commands(*command);
    if (names.empty()) break;
    const std::string word = i < argc ? argv[i] : "";
    if (std::find(names.begin(), names.end(), word) != names.end()) {
      command = command->get_subcommand(word);
      name += ' ' + word;
    } else if (word.starts_with('-')) {
      problem = error.what();
    } else if (word.empty()) {
      problem = fmt::format("a command is needed: {}", fmt::join(names, ", "));
    } else {
      problem = fmt::format("unknown command '{}': {}", word, offer(word, names));
    }
  }
  if (problem.empty()) problem = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr)
    problem += offer_option(*command, std::span(argv, static_cast<std::size_t>(argc)));
  base::print_coloured(fmt::format("{}: {}; see {} --help\n", name, problem, name), stderr);
  return static_cast<int>(base::ExitCode::deck);
}

namespace {

/// The value of the whole text; nothing where it is no value of the type T.
template <class T>
std::optional<T> value_of(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  T value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string range_of(double low, double high) {
  return std::isfinite(high) ? fmt::format("{} to {}", low, high) : fmt::format("{}", low);
}

}  // namespace

std::string problem_of_number(const std::string& text, double low, double high) {
  const auto value = value_of<double>(text);
  if (value && std::isfinite(*value) && low <= *value && *value <= high) return {};
  return fmt::format("'{}' is not a number from {}", base::quotable(text), range_of(low, high));
}

std::string problem_of_whole(const std::string& text, std::int64_t low, std::int64_t high) {
  const auto value = value_of<std::int64_t>(text);
  if (value && low <= *value && *value <= high) return {};
  return fmt::format("'{}' is not a whole number from {} to {}", base::quotable(text), low, high);
}

CLI::Validator number_from(double low, double high) {
  return {[=](const std::string& text) { return problem_of_number(text, low, high); },
          std::isfinite(high) ? range_of(low, high) : range_of(low, high) + " or more"};
}

CLI::Validator whole_from(std::int64_t low, std::int64_t high) {
  return {[=](const std::string& text) { return problem_of_whole(text, low, high); },
          high < std::numeric_limits<std::int32_t>::max() ? fmt::format("{} to {}", low, high)
                                                          : fmt::format("{} or more", low)};
}

CLI::Validator not_empty() {
  return {[](const std::string& value) { return value.empty() ? "a value is needed" : ""; }, ""};
}

}  // namespace shard8::app

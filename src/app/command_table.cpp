// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "app/command_table.hpp"

#include <CLI/CLI.hpp>

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

}  // namespace shard8::app

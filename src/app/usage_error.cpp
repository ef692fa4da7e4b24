// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/usage_error.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "deck/fields.hpp"

namespace shard8::app {
namespace {

/// The names of the commands below `app`.
std::vector<std::string> names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

/// "did you mean 'run'? there are run, check, ..."
std::string offer(const std::string& word, const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view near = deck::nearest(word, views);
  return fmt::format("{}there are {}", near.empty() ? "" : fmt::format("did you mean '{}'? ", near),
                     fmt::join(names, ", "));
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
  base::print_coloured(fmt::format("{}: {}; see {} --help\n", name, problem, name), stderr);
  return static_cast<int>(base::ExitCode::deck);
}

}  // namespace shard8::app

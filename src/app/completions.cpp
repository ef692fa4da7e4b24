// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "app/command_table.hpp"
#include "deck/fields.hpp"

namespace shard8::app {
namespace {

/// A key of a deck as the shells complete it.
struct Key {
  std::string name;  ///< "mesh.shard"
  std::string help;
  std::vector<std::string> choices;  ///< empty: any value
};

std::vector<Key> keys() {
  std::vector<Key> all;
  for (const deck::Group& group : deck::all_groups()) {
    for (const deck::Field& field : group.fields) {
      Key key{fmt::format("{}.{}", group.name, field.key), std::string(field.help), {}};
      if (const auto* choice = std::get_if<deck::ChoiceAccess>(&field.access))
        key.choices.assign(choice->names.begin(), choice->names.end());
      if (std::holds_alternative<deck::Access<bool>>(field.access)) key.choices = {"true", "false"};
      all.push_back(std::move(key));
    }
  }
  return all;
}

bool takes_keys(const ArgumentEntry& positional) { return positional.names.front() == "group.key=value"; }

std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

/// A function's name for a command: "_shard8_ckpt_list".
std::string function_name(const CommandEntry& command) {
  std::string name = "_shard8";
  for (const std::string& word : command.words) name += '_' + replace_all(word, "-", "_");
  return name;
}

/// The text in single quotes of bash, zsh and fish. Help texts have no line ends.
std::string quoted(const std::string& text) { return '\'' + replace_all(text, "'", "'\\''") + '\''; }

// bash

std::string names_of(const CommandEntry& command, const std::function<bool(const ArgumentEntry&)>& wanted) {
  std::string names;
  for (const ArgumentEntry& option : command.options)
    if (wanted(option))
      for (const std::string& name : option.names) names += (names.empty() ? "" : " ") + name;
  return names;
}

/// Lines "  'ckpt list') variable=... ;;" for each command, and for each option with values.
std::string bash_commands(const std::vector<CommandEntry>& table) {
  std::string text;
  for (const CommandEntry& command : table) {
    text += fmt::format("    {})\n", quoted(command.name()));
    text += fmt::format("      commands={}\n", quoted(fmt::format("{}", fmt::join(command.subcommands, " "))));
    text += fmt::format("      options={}\n", quoted(names_of(command, [](const auto&) { return true; })));
    text += fmt::format("      valued={}\n", quoted(names_of(command, [](const auto& o) { return o.takes_value; })));
    std::string places;
    for (const ArgumentEntry& positional : command.positionals) {
      places += places.empty() ? "" : " ";
      if (takes_keys(positional))
        places += "keys";
      else if (positional.choices.empty())
        places += "files";
      else
        places += fmt::format("{}", fmt::join(positional.choices, "|"));
    }
    text += fmt::format("      places=({})\n", places.empty() ? "" : "'" + replace_all(places, " ", "' '") + "'");
    for (const ArgumentEntry& option : command.options)
      if (!option.choices.empty())
        text += fmt::format("      if [[ \"$previous\" == {} ]]; then values={}; fi\n", option.names.back(),
                            quoted(fmt::format("{}", fmt::join(option.choices, " "))));
    text += "      ;;\n";
  }
  return text;
}

std::string bash(const std::vector<CommandEntry>& table) {
  std::string names, choices;
  for (const Key& key : keys()) {
    names += fmt::format("    {}=\n", key.name);
    if (!key.choices.empty())
      choices +=
          fmt::format("    {}) values={} ;;\n", key.name, quoted(fmt::format("{}", fmt::join(key.choices, " "))));
  }
  return R"SH(# bash completion for shard8: printed by `shard8 completions bash`

_shard8_keys() {
  cat <<'KEYS'
)SH" + names +
         R"SH(KEYS
}

# Sets values to those that a key of a deck may have.
_shard8_values() {
  case "$1" in
)SH" + choices +
         R"SH(  esac
}

# For the command $1 sets commands, options, valued (options that take a value) and places (what its arguments are),
# and values if the word before is an option with a choice.
_shard8_command() {
  case "$1" in
)SH" + bash_commands(table) +
         R"SH(  esac
}

_shard8() {
  local word="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD - 1]}"
  local command="" commands="" options="" valued="" values="" place skip="" n i places=()
  COMPREPLY=()
  # group.key=value is three words.
  if [[ "$word" == "=" || "$previous" == "=" ]]; then
    if [[ "$word" == "=" ]]; then _shard8_values "$previous"; word=""; else _shard8_values "${COMP_WORDS[COMP_CWORD - 2]}"; fi
    if [[ -n "$values" ]]; then COMPREPLY=($(compgen -W "$values" -- "$word")); fi
    return
  fi
  _shard8_command ""
  n=0
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ -n "$skip" ]]; then skip=""
    elif [[ "${COMP_WORDS[i]}" == "=" ]]; then skip=value
    elif [[ " $valued " == *" ${COMP_WORDS[i]} "* ]]; then skip=value
    elif [[ "${COMP_WORDS[i]}" == -* ]]; then :
    elif [[ " $commands " == *" ${COMP_WORDS[i]} "* ]]; then
      command="${command:+$command }${COMP_WORDS[i]}"
      _shard8_command "$command"
    else n=$((n + 1)); fi
  done
  if [[ -n "$skip" ]]; then
    if [[ -n "$values" ]]; then COMPREPLY=($(compgen -W "$values" -- "$word")); fi
  elif [[ "$word" == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$word"))
  elif [[ -n "$commands" ]]; then
    COMPREPLY=($(compgen -W "$commands" -- "$word"))
  elif ((${#places[@]} > 0)); then
    if ((n >= ${#places[@]})); then n=$((${#places[@]} - 1)); fi
    place="${places[n]}"
    case "$place" in
      files) ;;
      keys)
        COMPREPLY=($(compgen -W "$(_shard8_keys)" -- "$word"))
        compopt -o nospace 2>/dev/null || true
        ;;
      *) COMPREPLY=($(compgen -W "${place//|/ }" -- "$word")) ;;
    esac
  fi
}

complete -o default -F _shard8 shard8
)SH";
}

// zsh

/// A help text inside of [...] or after a colon.
std::string zsh_help(const std::string& text) {
  return replace_all(replace_all(replace_all(text, "[", "\\["), "]", "\\]"), ":", "\\:");
}

std::string zsh_action(const ArgumentEntry& argument) {
  if (!argument.choices.empty()) return fmt::format("({})", fmt::join(argument.choices, " "));
  return takes_keys(argument) ? "_shard8_keys" : "_files";
}

std::string zsh_arguments(const CommandEntry& command) {
  std::string text;
  const auto add = [&](const std::string& spec) { text += " \\\n    " + quoted(spec); };
  for (const ArgumentEntry& option : command.options)
    for (const std::string& name : option.names)
      add(fmt::format("{}[{}]{}", name, zsh_help(option.help),
                      option.takes_value ? ":value:" + zsh_action(option) : std::string()));
  for (std::size_t i = 0; i < command.positionals.size(); ++i) {
    const ArgumentEntry& positional = command.positionals[i];
    add(fmt::format("{}:{}:{}", positional.many ? "*" : std::to_string(i + 1), zsh_help(positional.names.front()),
                    zsh_action(positional)));
  }
  return text;
}

std::string zsh(const std::vector<CommandEntry>& table) {
  std::string text = "#compdef shard8\n# zsh completion for shard8: printed by `shard8 completions zsh`\n\n";
  text += "_shard8_keys() {\n  local -a keys\n  keys=(\n";
  for (const Key& key : keys()) text += fmt::format("    {}\n", quoted(fmt::format("{}=:{}", key.name, key.help)));
  text += "  )\n  _describe 'key of the deck' keys -S ''\n}\n\n";
  const auto find = [&](const std::vector<std::string>& words) {
    for (const CommandEntry& command : table)
      if (command.words == words) return command;
    return CommandEntry{};
  };
  for (const CommandEntry& command : table) {
    text += function_name(command) + "() {\n";
    if (command.subcommands.empty()) {
      text += fmt::format("  _arguments{}\n}}\n\n", zsh_arguments(command));
      continue;
    }
    std::string described, cases;
    for (const std::string& name : command.subcommands) {
      auto words = command.words;
      words.push_back(name);
      const CommandEntry below = find(words);
      described += fmt::format("        {}\n", quoted(name + ':' + zsh_help(below.help)));
      cases += fmt::format("        {}) {} ;;\n", name, function_name(below));
    }
    text += fmt::format(
        "  local curcontext=\"$curcontext\" state\n  local -a commands\n  _arguments -C{} \\\n    '1: :->command' \\\n"
        "    '*:: :->arguments'\n  case $state in\n    command)\n      commands=(\n{}      )\n"
        "      _describe command commands\n      ;;\n    arguments)\n      case $words[1] in\n{}      esac\n      ;;\n"
        "  esac\n}}\n\n",
        zsh_arguments(command), described, cases);
  }
  return text + "if [[ \"$funcstack[1]\" == _shard8 ]]; then _shard8 \"$@\"; else compdef _shard8 shard8; fi\n";
}

// fish

std::string fish(const std::vector<CommandEntry>& table) {
  std::string text = "# fish completion for shard8: printed by `shard8 completions fish`\n";
  const auto quote = [](const std::string& value) {
    return '\'' + replace_all(replace_all(value, "\\", "\\\\"), "'", "\\'") + '\'';
  };
  for (const CommandEntry& command : table) {
    std::string seen, none_seen = command.words.empty() ? "__fish_use_subcommand" : "";
    for (const std::string& word : command.words)
      seen += fmt::format("{}__fish_seen_subcommand_from {}", seen.empty() ? "" : "; and ", word);
    if (!command.words.empty() && !command.subcommands.empty())
      none_seen = fmt::format("{}; and not __fish_seen_subcommand_from {}", seen, fmt::join(command.subcommands, " "));
    for (const std::string& name : command.subcommands)
      for (const CommandEntry& below : table)
        if (below.words.size() == command.words.size() + 1 && below.words.back() == name &&
            below.name() == (command.words.empty() ? name : command.name() + ' ' + name))
          text += fmt::format("complete -c shard8 -f -n {} -a {} -d {}\n", quote(none_seen), name, quote(below.help));
    const std::string when = command.words.empty() ? "-n __fish_use_subcommand" : "-n " + quote(seen);
    for (const ArgumentEntry& option : command.options) {
      text += "complete -c shard8 " + when;
      for (const std::string& name : option.names)
        text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (option.takes_value) text += " -r";
      if (!option.choices.empty()) text += " -f -a " + quote(fmt::format("{}", fmt::join(option.choices, " ")));
      text += " -d " + quote(option.help) + '\n';
    }
    for (const ArgumentEntry& positional : command.positionals) {
      if (!positional.choices.empty())
        text += fmt::format("complete -c shard8 -f {} -a {}\n", when,
                            quote(fmt::format("{}", fmt::join(positional.choices, " "))));
      if (takes_keys(positional)) text += fmt::format("complete -c shard8 {} -a '(__shard8_keys)'\n", when);
    }
  }
  text += "\nfunction __shard8_keys\n";
  for (const Key& key : keys()) text += fmt::format("    printf '%s=\\t%s\\n' {} {}\n", key.name, quote(key.help));
  return text + "end\n";
}

}  // namespace

std::string completions(const std::vector<CommandEntry>& table, const std::string& shell) {
  if (shell == "zsh") return zsh(table);
  return shell == "fish" ? fish(table) : bash(table);
}

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

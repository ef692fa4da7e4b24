// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Decks in the spelling SHARD8_FUZZ_ENDING ("yaml" or "nml"). An input is the deck's text. After a zero byte, which no
// deck has, arguments of the command line follow, one a line. A deck must either be refused, with exit code 2 and a
// message with its name, or load. If it loads, its texts in both spellings must load to the same values.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.hpp"
#include "deck/fields.hpp"
#include "deck/layout.hpp"
#include "deck/load.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace shard8::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = SHARD8_FUZZ_ENDING;
constexpr bool kYaml = kEnding == "yaml";

/// Names of files in decks are relative to the repository's root, from whatever folder the program starts.
void enter_root() {
  static const bool entered = [] {
    fs::current_path(SHARD8_SOURCE_DIR);
    return true;
  }();
  static_cast<void>(entered);
}

struct Input {
  std::string text;
  std::vector<std::string> overrides;
};

Input split(std::string_view input) {
  const auto zero = input.find('\0');
  Input out{std::string(input.substr(0, zero)), {}};
  if (zero == std::string_view::npos) return out;
  for (input.remove_prefix(zero + 1); !input.empty();) {
    const auto end = std::min(input.find('\n'), input.size());
    out.overrides.emplace_back(input.substr(0, end));
    input.remove_prefix(std::min(end + 1, input.size()));
  }
  return out;
}

/// "name:LINE:COLUMN: error" at the start of each message must be a place in the deck.
void require_places(const std::string& message, const std::string& name, const std::string& text) {
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  const std::string start = name + ":";
  for (auto at = message.find(start); at != std::string::npos; at = message.find(start, at + 1)) {
    const char* const digits = message.c_str() + at + start.size();
    if (*digits < '0' || *digits > '9') continue;  // an error of the deck as a whole
    const unsigned long line = std::strtoul(digits, nullptr, 10);
    require(line >= 1 && line <= lines + 1, fmt::format("line {} of {} in: {}", line, lines, message.substr(0, 1000)));
  }
}

/// Loads the text that was written for a Config; the result must be that Config.
void require_same(const deck::Config& config, const std::string& text, const std::string& name) {
  try {
    const deck::Config again = deck::load_text(text, name).config;
    require(deck::to_yaml(again) == deck::to_yaml(config),
            fmt::format("{} loads to other values:\n{}---\n{}", name, text, deck::to_yaml(again)));
  } catch (const base::Error& error) {
    throw Violation(fmt::format("{} is refused: {}\n{}", name, error.what(), text));
  }
}

void add_folder(std::vector<std::string>& inputs, const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string of = entry.path().parent_path().filename();
    if (of == "machines" || of == "stacks") continue;  // files of other kinds
    if (entry.path().extension() == fmt::format(".{}", kEnding)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (fs::path file : files) {
    inputs.push_back(read_file(file.string()));
    if (file.replace_extension(".args"); fs::exists(file)) inputs.back() += '\0' + read_file(file.string());
  }
}

/// The decks of the other spelling, written in this one, so that each grammar has all of them.
void add_translations(std::vector<std::string>& inputs, const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const auto ending = entry.path().extension();
    if (ending != ".yaml" && ending != ".nml") continue;
    const std::string of = entry.path().parent_path().filename();
    if (of == "studies" || of == "machines" || of == "stacks") continue;  // no decks
    const auto config = deck::load(entry.path().string()).config;
    inputs.push_back(kYaml ? deck::to_yaml(config) : deck::to_namelist(config));
  }
}

std::string value_for(const deck::Field& field, Random& random) {
  static const std::vector<std::string> odd = {
      "",         "''",   "'it''s'", "\"\\x41\"", "~",  "null", "[1]", "{a: 1}", "(1,2)", "2*1",
      "1 2",      "&x 1", "*x",      "!t 1",      "|",  ">",    "'",   "\"",     "1e3",   "0x1",
      "\xc3\xa9", "\xff", "'\t'",    ".true.",    "-0", "+1",   "1.",  "a: b",   "a#b"};
  if (random.one_in(12)) return random.of(odd);
  if (const auto* choice = std::get_if<deck::ChoiceAccess>(&field.access)) {
    const std::string name(choice->names[random.below(choice->names.size())]);
    return kYaml && random.one_in(2) ? name : "'" + name + "'";
  }
  if (std::holds_alternative<deck::Access<bool>>(field.access)) return random.one_in(2) ? "true" : ".F.";
  if (std::holds_alternative<deck::Access<std::string>>(field.access)) {
    static const std::vector<std::string> names = {"out", "inputs/text", "tests/gold/llama_tiny.h5:/tokens", "a b", ""};
    return "'" + random.of(names) + "'";
  }
  if (std::holds_alternative<deck::Access<double>>(field.access)) {
    return fmt::format("{}{}{}", random.below(10), random.one_in(2) ? ".5" : "", random.one_in(2) ? "e-3" : "");
  }
  return std::to_string(random.one_in(3) ? 1 + random.below(4) : std::size_t{1} << random.below(10));
}

/// A group in one of the forms that its spelling allows.
std::string group_text(const deck::Group& group, Random& random) {
  const bool flow = kYaml && random.one_in(4);
  std::string text = kYaml ? fmt::format("{}:{}", group.name, flow ? " {" : "\n") : fmt::format("&{}\n", group.name);
  for (const deck::Field& field : group.fields) {
    if (!field.required && !random.one_in(4)) continue;
    if (random.one_in(40)) continue;
    const std::string value = value_for(field, random);
    if (flow) {
      text += fmt::format("{}: {}, ", field.key, value);
    } else if (kYaml) {
      text += fmt::format("  {}: {}{}\n", field.key, value, random.one_in(8) ? "  # why" : "");
    } else {
      text += fmt::format("  {} = {}{}\n", field.key, value, random.one_in(2) ? "," : "");
    }
  }
  if (!kYaml) return text + (random.one_in(4) ? "&end\n" : "/\n");
  return text + (flow ? "}\n" : "");
}

/// A text of the grammar's signs alone, nested and cut at random.
std::string signs(Random& random) {
  static const auto words = dictionary();
  std::string text;
  for (std::size_t n = 1 + random.below(200); n > 0; --n) {
    const std::string& word = random.of(words);
    const std::size_t times = random.one_in(50) ? random.below(300) : 1;
    for (std::size_t i = 0; i < times; ++i) text += word;
    if (random.one_in(3)) text += random.one_in(3) ? "\n" : " ";
    if (random.one_in(10)) text += "\n" + std::string(random.below(12), ' ');
  }
  return text;
}

}  // namespace

void fuzz_one(const std::uint8_t* data, std::size_t size) {
  enter_root();
  const auto [text, overrides] = split({reinterpret_cast<const char*>(data), size});
  const std::string name = fmt::format("inputs/fuzz.{}", kEnding);
  deck::LoadResult result;
  try {
    result = deck::load_text(text, name, overrides);
  } catch (const base::Error& error) {
    require(error.code() == base::ExitCode::deck, fmt::format("not exit code 2: {}", error.what()));
    require_good_error(error, {name + ":", "command line:"});
    require_places(error.what(), name, text);
    return;
  }
  require_same(result.config, deck::to_yaml(result.config), "inputs/echo.yaml");
  require_same(result.config, deck::to_namelist(result.config), "inputs/echo.nml");
  require(!deck::describe(result.config).empty(), "no description");
  for (const auto& warning : result.warnings) {
    require(warning.find("warning: ") != std::string::npos, "no warning: " + warning);
  }
}

std::vector<std::string> corpus() {
  enter_root();
  std::vector<std::string> inputs;
  add_folder(inputs, "inputs");
  add_folder(inputs, "tests/deck/broken");
  add_translations(inputs, "inputs");
  return inputs;
}

std::vector<std::string> dictionary() {
  std::vector<std::string> words = {"[",           "]",
                                    "{",           "}",
                                    ",",           ": ",
                                    "- ",          "? ",
                                    "&a ",         "*a",
                                    "!t ",         "!!str ",
                                    "|\n",         ">\n",
                                    "---\n",       "...\n",
                                    "%YAML 1.2\n", "%TAG ! b\n",
                                    "<<: ",        "~",
                                    "#",           "\\",
                                    "\"",          "'",
                                    "''",          "\"\\u0000\"",
                                    "\"\\x",       "\t",
                                    "\r\n",        "\n",
                                    "\n\n",        "  ",
                                    "    ",        "\xef\xbb\xbf",
                                    "\xfe\xff",    "\xff\xfe",
                                    "\xc2\x85",    "\xe2\x80\xa8",
                                    "/",           "&end",
                                    "$end",        "&",
                                    "$",           "=",
                                    "(",           ")",
                                    "%",           "!",
                                    ";",           "2*",
                                    ".true.",      ".f.",
                                    "1.0d-3",      "auto",
                                    "null",        "true",
                                    "on",          "=\n"};
  words.emplace_back(1, '\0');
  std::set<std::string> names;
  for (const deck::Group& group : deck::all_groups()) {
    names.emplace(group.name);
    words.push_back(kYaml ? fmt::format("\n{}:\n", group.name) : fmt::format("\n&{}\n", group.name));
    for (const deck::Field& field : group.fields) {
      names.emplace(field.key);
      words.push_back(kYaml ? fmt::format("\n  {}: ", field.key) : fmt::format(" {} = ", field.key));
      if (const auto* choice = std::get_if<deck::ChoiceAccess>(&field.access)) {
        names.insert(choice->names.begin(), choice->names.end());
      }
    }
  }
  words.insert(words.end(), names.begin(), names.end());
  return words;
}

std::string generate(Random& random) {
  if (random.one_in(4)) return signs(random);
  std::string text;
  for (const deck::Group& group : deck::all_groups()) {
    if (!random.one_in(10)) text += group_text(group, random);
  }
  return text;
}

}  // namespace shard8::fuzz

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.hpp"
#include "base/plain_file.hpp"
#include "deck/checks.hpp"
#include "deck/fields.hpp"
#include "deck/raw_deck.hpp"

namespace shard8::deck {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;

enum class Syntax { yaml, namelist };

Syntax syntax_of(const std::string& name) {
  const std::string end = std::filesystem::path(name).extension().string();
  if (end == ".yaml" || end == ".yml") return Syntax::yaml;
  if (end == ".nml") return Syntax::namelist;
  base::fail(base::ExitCode::deck, "{}: error: a deck's name ends in .yaml, .yml or .nml, this one in '{}'", name, end);
}

/// A file for scripts/study has the top-level keys 'deck', with the name of one, and 'study' or 'sweep'.
void refuse_a_study(const RawDeck& deck, const std::string& name) {
  const auto has = [&](std::string_view key) {
    return std::any_of(deck.groups.begin(), deck.groups.end(), [&](const auto& g) { return g.name.text == key; });
  };
  if (!has("deck") || !(has("study") || has("sweep"))) return;
  base::fail(base::ExitCode::deck,
             "{}: error: this is a study, which scripts/study runs; give the deck that its key 'deck' names", name);
}

}  // namespace

std::string read_text_file(const std::string& path, std::string_view noun) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    base::fail(base::ExitCode::deck, "{}: error: this is a folder, a {} is a file", path, noun);
  }
  base::PlainText file = base::read_plain(path, base::Pipes::read);
  if (!file.why.empty()) base::fail(base::ExitCode::deck, "{}: error: cannot read the {}: {}", path, noun, file.why);
  return std::move(file.text);
}

void require_text(std::string_view& text, const std::string& name, std::string_view noun) {
  if (text.size() > kMostBytes) {
    base::fail(base::ExitCode::deck, "{}: error: {} bytes are too many for a {}, at most {}", name, text.size(), noun,
               kMostBytes);
  }
  if (const auto at = text.find('\0'); at != std::string_view::npos) {
    base::fail(base::ExitCode::deck, "{}: error: not a text file: byte {} is zero", name, at + 1);
  }
  if (text.starts_with("\xfe\xff") || text.starts_with("\xff\xfe")) {
    base::fail(base::ExitCode::deck, "{}: error: this is UTF-16, a {} is UTF-8: save it as that", name, noun);
  }
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
}

std::string read_deck_file(const std::string& path) {
  syntax_of(path);
  return read_text_file(path, "deck");
}

namespace {

/// Reads the deck's and the command line's values. Returns whether the deck could be read to its end.
bool read_all(Diagnostics& errors, Reading& reading, std::string_view text, const std::string& name,
              std::span<const std::string> overrides) {
  const Syntax syntax = syntax_of(name);
  require_text(text, name, "deck");
  const int source = errors.add_source({name, split_lines(text)});
  const RawDeck deck =
      syntax == Syntax::yaml ? read_yaml(errors, source, std::string(text)) : read_namelist(errors, source, text);
  refuse_a_study(deck, name);
  const RawDeck changes = read_overrides(errors, overrides);
  read_fields(errors, reading, deck);
  read_fields(errors, reading, changes);
  return deck.complete;
}

LoadResult check_text(std::string_view text, const std::string& name, std::span<const std::string> overrides,
                      std::optional<std::int64_t> ranks, bool look_for_files, const UsedRestart& used) {
  Diagnostics errors;
  Reading reading;
  const bool complete = read_all(errors, reading, text, name, overrides);
  const bool ranks_open = reading.config.mesh.is_auto() && !ranks;
  if (complete) {
    check_required(errors, reading);
    resolve_defaults(reading);
    resolve_ranks(errors, reading, ranks);
    check_together(errors, reading);
    if (look_for_files) check_files(errors, reading, name, used);
  }
  errors.throw_if_any();
  warn_of_unused(errors, reading);
  return {reading.config, make_echo(reading), errors.warnings(), ranks_open};
}

}  // namespace

LoadResult load_text(std::string_view text, const std::string& name, std::span<const std::string> overrides,
                     std::optional<std::int64_t> ranks, const UsedRestart& used) {
  return check_text(text, name, overrides, ranks, true, used);
}

std::string convert(const std::string& path, std::span<const std::string> overrides, Spelling spelling) {
  const std::string text = read_deck_file(path);
  check_text(text, path, overrides, {}, false, {});  // throws the deck's errors
  Diagnostics errors;
  Reading reading;
  read_all(errors, reading, text, path, overrides);
  drop_replaced_batch(reading);
  return to_deck(reading, spelling);
}

LoadResult load(const std::string& path, std::span<const std::string> overrides, std::optional<std::int64_t> ranks,
                const UsedRestart& used) {
  return load_text(read_deck_file(path), path, overrides, ranks, used);
}

namespace {

Origin origin_of(const Reading& reading, const std::string& path) {
  const auto at = reading.values.find(path);
  if (at == reading.values.end()) return Origin::fallback;
  return at->second.source == 0 ? Origin::deck : Origin::command_line;
}

}  // namespace

std::string_view to_string(Origin origin) {
  switch (origin) {
    case Origin::deck:
      return "deck";
    case Origin::command_line:
      return "command line";
    default:
      return "default";
  }
}

std::string value_text(const Echo& echo) {
  return std::visit([](const auto& value) { return fmt::format("{}", value); }, echo.value);
}

std::vector<Echo> make_echo(const Reading& reading) {
  std::vector<Echo> all;
  Config config = reading.config;
  for (const Group& group : all_groups()) {
    for (const Field& field : group.fields) {
      Echo echo{std::string(group.name), std::string(field.key), {}, {}};
      echo.origin = origin_of(reading, fmt::format("{}.{}", group.name, field.key));
      std::visit(
          [&](const auto& get) {
            if constexpr (std::is_same_v<std::remove_cvref_t<decltype(get)>, ChoiceAccess>) {
              echo.value = value_text(field, config);
            } else {
              echo.value = get(config);
            }
          },
          field.access);
      all.push_back(std::move(echo));
    }
  }
  return all;
}

std::string to_yaml(const Config& config) {
  std::string text;
  for (const Group& group : all_groups()) {
    text += fmt::format("{}:\n", group.name);
    for (const Field& field : group.fields) {
      text += fmt::format("  {}: {}\n", field.key, spelled(field, config, Spelling::yaml));
    }
  }
  return text;
}

std::string to_namelist(const Config& config) {
  std::string text;
  for (const Group& group : all_groups()) {
    text += fmt::format("&{}\n", group.name);
    for (const Field& field : group.fields) {
      text += fmt::format("  {} = {}\n", field.key, spelled(field, config, Spelling::namelist));
    }
    text += "/\n";
  }
  return text;
}

std::string to_deck(const Reading& reading, Spelling spelling) {
  const bool yaml = spelling == Spelling::yaml;
  std::string text;
  for (const Group& group : all_groups()) {
    std::string keys;
    for (const Field& field : group.fields)
      if (reading.given(fmt::format("{}.{}", group.name, field.key)))
        keys += fmt::format("  {}{} {}\n", field.key, yaml ? ":" : " =", spelled(field, reading.config, spelling));
    if (keys.empty()) continue;
    text += yaml ? fmt::format("{}{}:\n{}", text.empty() ? "" : "\n", group.name, keys)
                 : fmt::format("{}&{}\n{}/\n", text.empty() ? "" : "\n", group.name, keys);
  }
  return text;
}

Config without_files(Config config) {
  config.data.kind = DataKind::synthetic;
  config.data.path.clear();
  config.data.validation = 0;
  config.data.validation_path.clear();
  config.model.init_file.clear();
  config.run.validate_every = 0;
  config.run.validate_batches = 0;
  config.run.skeleton = Skeleton::none;
  config.run.skeleton_times.clear();
  config.verify = {};
  return config;
}

}  // namespace shard8::deck

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "deck/config.hpp"
#include "deck/fields.hpp"
#include "deck/raw_deck.hpp"

namespace shard8::deck {

/// Where a key's value came from; fallback: the default.
enum class Origin { fallback, deck, command_line };

/// "default", "deck" or "command line".
std::string_view to_string(Origin origin);

/// A key, its value, and where the value came from.
struct Echo {
  std::string group;
  std::string key;
  std::variant<std::int64_t, std::uint64_t, double, bool, std::string> value;
  Origin origin = Origin::fallback;
};

/// The value as text, a string without quotes.
std::string value_text(const Echo& echo);

/// One Echo for each key, in the order of the table.
std::vector<Echo> make_echo(const Reading& reading);

/// The text of a deck with every key written out. The text loads to this Config, which must come from load().
std::string to_yaml(const Config& config);
std::string to_namelist(const Config& config);

/// The text of a deck with the keys that `reading` was given.
std::string to_deck(const Reading& reading, Spelling spelling);

struct LoadResult {
  Config config;                           ///< checked, every default filled in
  std::vector<Echo> echo;                  ///< every key with its value and where the value came from
  std::vector<std::string> warnings = {};  ///< one for each key without effect, in the form of an error
  bool ranks_open = false;                 ///< mesh.shard was auto and the number of ranks was not given
};

/// Whether a training whose output.dir is `folder` was given `restart` as checkpoint.restart before. Then the
/// checkpoint that it names may be gone, since the training goes on from its own.
using UsedRestart = std::function<bool(const std::string& folder, const std::string& restart)>;

/// Reads a deck, then the overrides `group.key=value`, which replace the deck's values, and checks everything. The end
/// of the file's name chooses between YAML (.yaml, .yml) and Fortran namelists (.nml). Throws base::Error(deck) with
/// all errors at once, each with its place. Opens no file but the deck; of the files that it names only their existence
/// is checked. `ranks`, at least 1, is the number of processes that were started; it replaces mesh.shard = auto.
/// Without it auto is taken as 1, or as few as mesh.expert needs, with a warning. A mesh without auto is not held
/// against it. Where `used` is empty, checkpoint.restart has not been used.
LoadResult load(const std::string& path, std::span<const std::string> overrides = {},
                std::optional<std::int64_t> ranks = {}, const UsedRestart& used = {});

/// As load(), for a deck whose text was already read. `name` is its name in messages, and its end chooses the syntax.
/// Relative names of files are looked for in the working directory, then in the folder of `name`. Error(deck) also for
/// a text above 1 MiB, or one that is not UTF-8 text.
LoadResult load_text(std::string_view text, const std::string& name, std::span<const std::string> overrides = {},
                     std::optional<std::int64_t> ranks = {}, const UsedRestart& used = {});

/// The text of a deck file. Throws base::Error(deck) if the file cannot be read, is a folder, or its name does not end
/// in .yaml, .yml or .nml.
std::string read_deck_file(const std::string& path);

/// The text of a file that messages call `noun`: "deck". Throws base::Error(deck) if it cannot be read or is a folder.
std::string read_text_file(const std::string& path, std::string_view noun);

/// Throws base::Error(deck) for a text that cannot be a deck's: above 1 MiB, with a zero byte, or UTF-16. Takes away
/// the mark with which some editors begin a text in UTF-8. `noun` as above.
void require_text(std::string_view& text, const std::string& name, std::string_view noun);

/// The deck at `path` in another spelling: the keys that the deck or an override gives, with their values as they stand
/// there, in the order of the table. Comments are lost. The files that the deck names need not exist. Throws what
/// load() throws otherwise.
std::string convert(const std::string& path, std::span<const std::string> overrides, Spelling spelling);

/// The training of `config` as benchmarks and calibrations run it: on synthetic data, with initial weights from the
/// seed, without validation, and computing even where `config` is a skeleton. No file of the user's is read. Every
/// operation of a training step stays.
Config without_files(Config config);

}  // namespace shard8::deck

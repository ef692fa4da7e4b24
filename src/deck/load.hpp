// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "deck/config.hpp"
#include "deck/echo.hpp"

namespace shard8::deck {

struct LoadResult {
  Config config;                           ///< checked, every default filled in
  std::vector<Echo> echo;                  ///< every key with its value and where the value came from
  std::vector<std::string> warnings = {};  ///< keys without effect, printed like errors
};

/// Reads a deck, then the overrides `group.key=value`, and checks everything. The end of the file's name chooses
/// between YAML (.yaml, .yml) and Fortran namelists (.nml). Throws base::Error(deck) with all errors at once, each
/// with its place. Opens no file but the deck.
LoadResult load(const std::string& path, std::span<const std::string> overrides = {});

/// Reads a deck from a text. Messages call it `name`. Relative names of files are looked for in the working directory,
/// then in the folder of `name`.
LoadResult load_text(std::string_view text, const std::string& name, std::span<const std::string> overrides = {});

/// The text of a deck file. Throws base::Error(deck) if the file cannot be read, is a folder, or has another ending.
std::string read_deck_file(const std::string& path);

}  // namespace shard8::deck

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
  std::vector<Echo> echo;                  ///< the same, key by key, with where each value came from
  std::vector<std::string> warnings = {};  ///< with place and line, as errors are: keys that have no effect
};

/// Reads a deck, YAML (.yaml, .yml) or Fortran namelists (.nml) by the end of its name, then the
/// overrides `group.key=value`, and checks everything. Throws base::Error(deck) with all errors at
/// once, each with its place. Reads no file but the deck.
LoadResult load(const std::string& path, std::span<const std::string> overrides = {});

/// The same for a text already read; `name` is what messages call it, its folder is where relative
/// names of files are looked for beside the working directory.
LoadResult load_text(std::string_view text, const std::string& name, std::span<const std::string> overrides = {});

/// The text of a deck; throws base::Error(deck) if it cannot be read or is none.
std::string read_deck_file(const std::string& path);

}  // namespace shard8::deck

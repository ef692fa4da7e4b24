// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shard8::deck {

/// Where a deck's text came from: a file, or one argument of the command line.
struct Source {
  std::string name;                ///< "inputs/tiny.yaml" or "command line:mesh.tensor=2"
  std::vector<std::string> lines;  ///< without line ends
  bool numbered = true;            ///< whether line and column say more than the name does
};

/// A stretch of one line of a source. Lines and columns count from 1, columns in bytes.
/// Length 0: nothing to show (the whole source is meant).
struct Span {
  int source = 0;
  int line = 1;
  int column = 1;
  int length = 0;
};

/// Cuts at line feeds; a carriage return before one goes too.
std::vector<std::string> split_lines(std::string_view text);

}  // namespace shard8::deck

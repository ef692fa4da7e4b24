// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/random/draw.hpp"

namespace shard8::test {

struct Mesh {
  int replicate = 1, shard = 1, tensor = 1;
  int ranks() const { return replicate * shard * tensor; }
  bool operator==(const Mesh&) const = default;
  auto operator<=>(const Mesh&) const = default;
};
std::string text_of(const Mesh& mesh);

/// The content of the text file that is trained on: the numbers 1000 to 1999, one a line, with digits exchanged in one
/// of several ways (contents of the same length), with pieces appended.
struct Content {
  int alphabet = 0;  ///< 0 to 2
  int appended = 0;  ///< pieces
  bool operator==(const Content&) const = default;
};
inline constexpr int kAlphabets = 3;

/// Writes the content to a file.
void write_content(const std::filesystem::path& file, const Content& content);
/// Shell commands that write the content to a file, and that append piece number `piece` (from 0).
std::string shell_of(const std::string& file, const Content& content);
std::string shell_append(const std::string& file, int piece);

/// What all runs of a sequence have in common.
struct BaseDeck {
  std::string arch = "llama", compute = "fp32", recipe = "none";
  bool fp32() const { return compute == "fp32"; }
  /// The deck's text without the keys of Deck.
  std::string text() const;
  bool operator==(const BaseDeck&) const = default;
};
BaseDeck draw_base_deck(Draw& draw);

/// The keys that operations change, in a form that compares as the program must.
struct Deck {
  // Must not change at a restart.
  int layers = 1;
  // Need checkpoint.allow_changes.
  std::string lr = "0.003", clip = "1";
  int seed = 1;
  Content content;
  // May change.
  Mesh mesh;
  std::string data_path = "text.txt";
  std::int64_t steps = 12, every = 2, keep = 2;
  bool async = true;
  int prefetch = 1, log_every = 1000;

  bool same_model(const Deck& o) const { return layers == o.layers; }
  /// Equal in all that needs allow_changes.
  bool same_training(const Deck& o) const {
    return lr == o.lr && clip == o.clip && seed == o.seed && content == o.content;
  }
  /// All on which the losses depend, apart from the mesh.
  std::string training_text() const;
  /// The keys as arguments of the program.
  std::vector<std::string> arguments() const;
};

/// 6 sequences of 16 tokens, in all base decks.
inline constexpr std::int64_t kTokensOfStep = 96;

/// Most steps that a sequence trains; decays end there.
inline constexpr std::int64_t kMostSteps = 40;

}  // namespace shard8::test

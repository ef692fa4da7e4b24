// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/random/draw.hpp"

// What the test knows of trainings and folders. It follows from the commands that were given, and from nothing that the
// program decided.
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

/// A checkpoint by the training that wrote it.
struct Parent {
  int training = 0;  ///< index in World::trainings
  std::int64_t step = 0;
  bool operator==(const Parent&) const = default;
};

/// From step `first` on a training has the losses of this deck.
struct Segment {
  std::int64_t first = 0;
  Deck deck;
};

struct Training {
  std::string id;  ///< as the program named it; empty before it was seen
  std::optional<Parent> parent;
  std::vector<Segment> lineage;  ///< ascending; the first one begins at step 0
  std::int64_t begins() const { return parent ? parent->step : 0; }
};

/// Whether all steps up to one were trained on one mesh: then losses are compared bit for bit.
using OneMesh = std::optional<Mesh>;

struct Checkpoint {
  enum class State { good, cut_shard, no_manifest };
  int training = 0;
  std::int64_t step = 0, serial = 0;
  Deck deck;  ///< of the run that wrote it
  OneMesh mesh;
  State state = State::good;
  bool uncertain = false;  ///< a run was killed while it removed this one: it may come back or be gone
  std::string digest;      ///< of all its files
  bool usable() const { return state == State::good; }
};

/// A folder of checkpoints.
struct Folder {
  std::map<std::int64_t, Checkpoint> checkpoints;  ///< by step
  std::string latest;                              ///< what the file `latest` names; empty without it

  /// The usable checkpoint that was written last, of all trainings or of one; null if there is none.
  const Checkpoint* newest(int training = -1) const;
  /// Whether it holds a checkpoint, damaged or not, whose manifest is of a training other than this one.
  bool holds_other(int training) const;
  /// Whether it holds what may be of another training and does not say of which.
  bool holds_unknown(int training) const;
  /// Names or files of checkpoints, but no usable checkpoint.
  bool nearly() const { return newest() == nullptr && (!latest.empty() || !checkpoints.empty()); }
};

/// checkpoint.restart of a command.
struct Restart {
  enum class Kind { automatic, none, path };
  Kind kind = Kind::automatic;
  std::string folder;      ///< of checkpoints
  std::int64_t step = -1;  ///< of the checkpoint in it; -1: the folder itself is named
  std::string text() const;
  bool operator==(const Restart&) const = default;
};

/// The checkpoint with which a training began in an output.dir.
struct Origin {
  std::string folder;  ///< of checkpoints
  Parent point;
  Deck deck;           ///< of the run that wrote it
  OneMesh mesh;        ///< of the steps before it
  bool moved = false;  ///< to replaced_N
};

/// An output.dir.
struct Output {
  std::optional<int> owner;  ///< the training whose files these are
  // Of the last leg.
  Restart restart;
  Deck deck;
  bool finished = false;
  // Of all legs.
  std::optional<Origin> origin;  ///< none: step 0
  std::int64_t legs = 0;
  std::vector<Restart> restarts;          ///< checkpoint.restart of the legs
  std::int64_t summaries = 0;             ///< summary.json and summary.leg_N.json
  bool has_told_checkpoint = false;       ///< a leg that was not killed wrote a checkpoint
  std::map<std::int64_t, OneMesh> lines;  ///< of metrics.jsonl, by step
};

/// A call of the program.
struct Command {
  std::string output = "o1";
  std::string folder;  ///< checkpoint.dir; empty: the default
  Deck deck;
  Restart restart;
  bool allow_changes = false, replace = false, requeue = false;
  std::int64_t stop_after = 0;
  double final_loss_max = 0;   ///< 0: not set
  std::string gold;            ///< verify.gold; empty: not set
  bool gold_is_wrong = false;  ///< a loss in it is not that of the training
  std::string checkpoints() const { return folder.empty() ? output + "/checkpoints" : folder; }
  /// The program's arguments after the deck; paths begin with `prefix`.
  std::vector<std::string> arguments(const std::string& prefix = "") const;
  /// As a shell types it.
  std::string shell() const;
};

struct World {
  std::vector<Training> trainings;
  std::map<std::string, Output> outputs;
  std::map<std::string, Folder> folders;
  std::map<std::string, Content> files;  ///< texts to train on
};

/// The name of a checkpoint's folder.
std::string step_folder(std::int64_t step);

}  // namespace shard8::test

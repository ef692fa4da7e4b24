// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "profile/compare/comparison.hpp"
#include "tests/random/random_deck.hpp"
#include "tests/random/trial.hpp"

namespace shard8::test {

/// Two right configurations of one training: they differ only in keys that may change the rounding.
struct Pair {
  std::int64_t deck = 0;  ///< number of the deck among those of the seed
  std::string kind;       ///< profile::rounding_of the deck
  deck::Config one, other;

  double parameters() const;  ///< of the model, about
  std::int64_t tokens() const { return one.data.batch * one.model.seq; }
};

/// Deck `number` of a seed as a training of `steps` steps without stops, checkpoints and traces. Its learning rate
/// decays eight times as slowly as drawn, so that it seldom stops to learn before the last step.
RandomDeck draw_training(std::uint64_t seed, std::int64_t number, std::int64_t steps,
                         const std::filesystem::path& folder, std::int64_t most_ranks);

/// The kind of a config (profile::rounding_of).
std::string kind_of(const deck::Config& config);

/// The training of draw_training() with another mesh, other micro-batches and another schedule. If no other mesh is
/// found for the deck, `other` is the training on one rank.
Pair draw_pair(std::uint64_t seed, std::int64_t number, std::int64_t steps, const std::filesystem::path& folder,
               std::int64_t most_ranks);

/// The relative differences of a pair of trainings, by step.
struct MeasuredPair {
  std::int64_t deck = 0;
  std::string kind, meshes;
  double parameters = 0, learning_rate = 0;
  std::int64_t tokens = 0;  ///< of a step
  std::vector<double> loss, grad_norm;
  std::vector<double> unit_norm;  ///< of the unit whose norms differ most
  /// Of the unit whose weights' norms differ most; empty unless both trainings keep weights in FP8.
  std::vector<double> weight_norm;
  bool finite = true;  ///< all losses and norms of both trainings

  double largest(const std::vector<double>& values) const;
};

/// By step, the largest relative difference of all units' gradient norms.
std::vector<double> unit_norm_differences(const Outcome& one, const Outcome& other);
/// The same of the norms of weights kept in FP8; empty if one of the trainings kept none.
std::vector<double> weight_norm_differences(const Outcome& one, const Outcome& other);

/// Of two trainings that ended.
MeasuredPair measured(const Pair& pair, const Outcome& one, const Outcome& other);

/// What was measured with one seed and number of steps. It is kept in a file, to which each round adds lines, so that a
/// measurement that was interrupted goes on.
class Measurements {
 public:
  /// Reads the file, unless it is missing. Throws base::Error(failed) if it is of another seed or number of steps.
  /// `file` empty: nothing is kept.
  Measurements(std::filesystem::path file, std::uint64_t seed, std::int64_t steps);

  void add(const MeasuredPair& pair);
  /// Appends what was added since the last call.
  void write();
  const std::vector<MeasuredPair>& pairs() const { return pairs_; }
  std::int64_t count(const std::string& kind) const;
  /// The number after the last deck that was looked at, also of those of a kind of which there were enough.
  std::int64_t next_deck() const { return next_; }
  void looked_at(std::int64_t deck) { next_ = deck + 1; }

 private:
  std::filesystem::path file_;
  std::uint64_t seed_;
  std::int64_t steps_, next_ = 0;
  std::vector<MeasuredPair> pairs_;
  std::size_t written_ = 0;
};

/// A table of the differences by kind: the median, 99 % and the largest, at some steps. Below it the rank correlations
/// of the largest difference with the parameters, the tokens of a step and the learning rate.
std::string to_text(const std::vector<MeasuredPair>& pairs);

/// The text of an envelope's file: bounds are `kEnvelopeFactor` times the largest difference of all pairs up to a step,
/// those of norms of units at least `kLeastBound`.
inline constexpr double kEnvelopeFactor = 1.5;  // chosen
/// The least bound of norms of units: metrics.jsonl rounds them to nine digits, so that two norms that differ by far
/// less may be read as this far apart.
inline constexpr double kLeastBound = 1e-8;
struct Provenance {
  std::string command, commit, date;
  std::uint64_t seed = 0;
};
std::string envelope_text(const std::vector<MeasuredPair>& pairs, std::int64_t steps, const Provenance& provenance);

}  // namespace shard8::test

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/envelope/pair.hpp"

#include "base/error.hpp"
#include "deck/choices.hpp"
#include "profile/compare/envelope.hpp"
#include "tests/random/trial.hpp"

namespace shard8::test {

double Pair::parameters() const {
  const deck::ModelConfig& m = one.model;
  const auto product = [](std::int64_t a, std::int64_t b) { return static_cast<double>(a) * static_cast<double>(b); };
  return static_cast<double>(m.layers) * product(m.hidden, 4 * m.hidden + 3 * m.ffn) + product(m.vocab, m.hidden);
}

std::string kind_of(const deck::Config& c) {
  return profile::rounding_of(deck::to_string(c.fp8.recipe), deck::to_string(c.precision.compute),
                              deck::to_string(c.precision.reduce));
}

RandomDeck draw_training(std::uint64_t seed, std::int64_t number, std::int64_t steps,
                         const std::filesystem::path& folder, std::int64_t most_ranks) {
  constexpr std::int64_t kSlower = 8;  // drawn decks have 3 to 9 steps
  Acceptance ignored;
  RandomDeck deck = draw_deck(seed, number, folder, ignored, most_ranks);
  deck::Config& c = deck.config;
  c.run.steps = steps;
  c.run.stop_after = c.checkpoint.every = 0;
  c.run.skeleton = deck::Skeleton::none;
  c.data.batch_per_rank = 0;  // the batch stays on meshes of other ranks
  c.output.trace.clear();
  c.output.trace_steps = deck::Config{}.output.trace_steps;
  c.optimizer.decay_steps = c.optimizer.warmup + kSlower * (c.optimizer.decay_steps - c.optimizer.warmup);
  deck.restarts.clear();
  deck.change.reset();
  provide_data(deck, folder);  // slabs have as many steps as the run
  c = loaded(c);
  return deck;
}

Pair draw_pair(std::uint64_t seed, std::int64_t number, std::int64_t steps, const std::filesystem::path& folder,
               std::int64_t most_ranks) {
  constexpr int kMostTries = 4;
  RandomDeck deck = draw_training(seed, number, steps, folder, most_ranks);
  Pair pair{.deck = number, .kind = kind_of(deck.config), .one = deck.config, .other = {}};
  Draw draw(seed, number, 0, "other configuration");
  for (int i = 0; i < kMostTries; ++i) {
    const Restart restart = draw_restart(deck.config, most_ranks, draw);
    if (restart.same_mesh) continue;
    deck.restarts = {restart};
    pair.other = restarted(deck, 0);
    pair.other.run.stop_after = 0;
    pair.other = loaded(pair.other);
    return pair;
  }
  pair.other = alone(deck.config);
  return pair;
}

}  // namespace shard8::test

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/random/random_deck.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/error.hpp"
#include "deck/fields.hpp"
#include "deck/load.hpp"

namespace shard8::test {

using profile::Exchange;

namespace {

bool sums_in_ring(const deck::OverlapConfig& o) {
  constexpr auto ring = profile::ExchangeMethod::ring;
  return o.enable && (o.methods[Exchange::proj_fprop] == ring || o.methods[Exchange::fc2_fprop] == ring);
}

}  // namespace

Schedule schedule_of(const deck::Config& c) {
  return {.recompute = c.model.recompute,
          .reshard_after_forward = c.fsdp.reshard_after_forward,
          .prefetch = c.fsdp.prefetch,
          .gather = c.fsdp.gather,
          .weights = c.fp8.weights,
          .deterministic = c.precision.deterministic,
          .overlap = c.overlap,
          .validate_every = c.run.validate_every};
}

deck::Config with_schedule(deck::Config c, const Schedule& s) {
  c.model.recompute = s.recompute;
  c.fsdp.reshard_after_forward = s.reshard_after_forward;
  c.fsdp.prefetch = s.prefetch;
  c.fsdp.gather = s.gather;
  c.fp8.weights = s.weights;
  c.precision.deterministic = s.deterministic;
  c.run.validate_every = s.validate_every;
  const deck::OverlapConfig given = std::exchange(c.overlap, s.overlap);
  // In a ring of more than two ranks sums have an order of their own, so they go round a ring in both schedules or in
  // none.
  if (c.mesh.tensor > 2 && (sums_in_ring(given) || sums_in_ring(s.overlap))) {
    c.overlap.enable = given.enable;
    c.overlap.min_gflop = given.min_gflop;
    for (const Exchange e : {Exchange::proj_fprop, Exchange::fc2_fprop}) c.overlap.methods[e] = given.methods[e];
  }
  return c;
}

deck::Config loaded(const deck::Config& config) {
  std::string text = deck::to_yaml(config);
  const auto replace = [&text](const std::string& line, const std::string& by) {
    const auto at = text.find("\n  " + line + "\n");
    SHARD8_REQUIRE(at != std::string::npos, "'{}' is not in the deck:\n{}", line, text);
    text.replace(at, line.size() + 3, by);
  };
  replace(fmt::format("shard: {}", config.mesh.shard), "\n  shard: auto");
  if (config.data.batch_per_rank > 0) replace(fmt::format("batch: {}", config.data.batch), "");
  return deck::load_text(text, "random.yaml", {}, config.mesh.ranks()).config;
}

std::string short_yaml(const deck::Config& config) {
  const deck::Config defaults;
  std::string text;
  for (const deck::Group& group : deck::all_groups()) {
    std::string keys;
    for (const deck::Field& field : group.fields) {
      const bool is_default = deck::value_text(field, config) == deck::value_text(field, defaults);
      if ((is_default && !field.required) || &field == &deck::field_at("run.timing_skip")) continue;
      keys += fmt::format("  {}: {}\n", field.key, deck::spelled(field, config, deck::Spelling::yaml));
    }
    if (!keys.empty()) text += fmt::format("{}:\n{}", group.name, keys);
  }
  return text;
}

RandomDeck drawn(std::uint64_t seed, std::int64_t number, std::int64_t attempt, const std::filesystem::path& folder,
                 std::int64_t most_ranks) {
  RandomDeck deck;
  deck.most_ranks = most_ranks;
  deck.config.run.timing_skip = 0;  // its default depends on the steps; no training reads it
  for (const Generator& generator : generators()) {
    Draw draw(seed, number, attempt, generator.path);
    generator.draw(deck, draw);
  }
  Draw draw(seed, number, attempt, "second schedule");
  deck.second = draw_second(deck.config, draw);
  provide_data(deck, folder);
  return deck;
}

RandomDeck draw_deck(std::uint64_t seed, std::int64_t number, const std::filesystem::path& folder,
                     Acceptance& acceptance, std::int64_t most_ranks) {
  constexpr std::int64_t kMostAttempts = 1000;
  for (std::int64_t attempt = 0; attempt < kMostAttempts; ++attempt) {
    RandomDeck deck = drawn(seed, number, attempt, folder, most_ranks);
    ++acceptance.drawn;
    try {
      const deck::Config second = with_schedule(deck.config, deck.second);
      deck.config = loaded(deck.config);
      deck.second = schedule_of(loaded(second));
      draw_crossings(deck, seed, number, attempt);
      return deck;
    } catch (const base::Error& error) {
      ++acceptance.rejected;
      acceptance.last_error = error.what();
    }
  }
  base::fail(base::ExitCode::failed, "deck {} of seed {}: the checks reject all of {} attempts; the last one:\n{}",
             number, seed, kMostAttempts, acceptance.last_error);
}

namespace {

constexpr NotDrawn kNotDrawn[] = {
    {"model.init_file", "a file with the weights that a training would draw, in a form that is drawn: WeightFile"},
    {"run.skeleton", "drawn beside the deck: its skeleton is a job of its own"},
    {"run.skeleton_times", "changes no collective: tests of skeletons"},
    {"run.skeleton_load", "changes no collective: tests of skeletons"},
    {"mesh.share_devices", "no effect on hosts: two ranks on one device run the tests of two devices"},
    {"run.time_limit_min", "stops a run by the clock: train.stopping and train.time_left"},
    {"run.margin_s", "stops a run by the clock: train.stopping and train.time_left"},
    {"data.validation_path", "other data in place of a share, which does not change the training: train.validation"},
    {"verify.validation_loss_max", "held against the losses after the run: train.verify"},
    {"run.log_every", "only what is printed: a training does not read it"},
    {"run.timing_skip", "only which steps figures count: a training does not read it"},
    {"run.hang_limit_s", "bounds how long a rank waits for others: comm.environment stops ranks"},
    {"checkpoint.dir", "the name of what a run writes: each training has a folder of its own"},
    {"checkpoint.restart", "chosen by each training: the first part of a stopped one begins, the others go on"},
    {"checkpoint.allow_changes", "set where a change was drawn: Change"},
    {"verify.final_loss_max", "held against the losses after the run: train.verify"},
    {"verify.final_loss_min", "held against the losses after the run: train.verify"},
    {"verify.unigram_ratio_max", "held against the losses after the run: train.verify"},
    {"verify.min_steps", "whether a final loss is judged after the run: train.verify"},
    {"verify.gold", "held against the losses after the run: train.verify"},
    {"verify.tolerance", "held against the losses after the run: train.verify"},
    {"output.dir", "the name of what a run writes"},
    {"output.metrics", "the name of what a run writes"},
    {"output.replace", "each deck has folders of its own; tests/sequences has folders that are used"},
    {"output.timing", "the name of what a run writes"},
    {"output.timing_ranks", "the name of what a run writes"},
    {"output.summary", "the name of what a run writes"},
};

}  // namespace

std::span<const NotDrawn> keys_not_drawn() { return kNotDrawn; }

}  // namespace shard8::test

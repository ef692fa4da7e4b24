// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/random/trial.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "base/error.hpp"
#include "deck/fields.hpp"

namespace shard8::test {

namespace {

using deck::Config;
using Action = std::function<void(RandomDeck&)>;

constexpr int kMostTrials = 400;

/// Sets the defaults that depend on other keys. The other keys are set to the defaults in the table of fields.
void fill_in(Config& c) {
  if (c.model.kv_heads == 0) c.model.kv_heads = c.model.heads;
  if (c.optimizer.decay_steps == 0) c.optimizer.decay_steps = std::max(c.run.steps, c.optimizer.warmup + 1);
}

void reset(std::string_view path, RandomDeck& d) {
  const deck::Field& field = deck::field_at(path);
  Config defaults;
  std::visit(
      [&](const auto& access) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(access)>, deck::ChoiceAccess>) {
          access.set(d.config, access.get(defaults));
        } else {
          access(d.config) = access(defaults);
        }
      },
      field.access);
  if (path == "model.tie_embeddings") d.config.model.tie_embeddings = d.config.model.arch == deck::Arch::gpt2;
  if (path == "fp8.power_of_2_scales" || path == "fp8.recipe")
    d.config.fp8.power_of_2_scales =
        d.config.fp8.recipe == deck::Recipe::block || d.config.fp8.recipe == deck::Recipe::mxfp8;
  if (path == "fp8.recipe" || path == "precision.compute") {
    d.config.fp8.format = deck::Fp8Format::automatic;
    d.config.fsdp.gather = d.second.gather = deck::Gather::automatic;
    d.config.model.moe.dispatch = deck::MoeDispatch::automatic;
    for (Restart& restart : d.restarts) restart.schedule.gather = deck::Gather::automatic;
  }
  fill_in(d.config);
}

/// Adds changes that make the size `now` smaller: to `least`, to half, to one less.
template <class Get>
void add_smaller(std::vector<Action>& changes, std::int64_t now, std::int64_t least, Get get) {
  for (const std::int64_t size : {least, now / 2, now - 1})
    if (size >= least && size < now) changes.push_back([get, size](RandomDeck& d) { get(d) = size; });
}

/// Adds changes that make restart number `i` simpler: on the same mesh, on one rank, with the schedule of the deck.
void add_restart(std::vector<Action>& changes, const RandomDeck& deck, std::size_t i) {
  const Schedule first = schedule_of(deck.config);
  const auto add = [&](auto&& change) {
    changes.push_back([i, change](RandomDeck& d) { change(d, d.restarts.at(i)); });
  };
  if (!deck.restarts[i].same_mesh) {
    add([](RandomDeck&, Restart& r) { r.same_mesh = true; });
    add([](RandomDeck& d, Restart& r) {
      r.mesh = {};
      r.micro_batch = d.config.data.micro_batch;
    });
    for (std::int64_t deck::MeshConfig::*extent :
         {&deck::MeshConfig::replicate, &deck::MeshConfig::shard, &deck::MeshConfig::tensor})
      add([extent](RandomDeck&, Restart& r) { r.mesh.*extent = 1; });
  }
  add([first](RandomDeck&, Restart& r) { r.schedule = first; });
  add([first](RandomDeck&, Restart& r) { r.schedule.recompute = first.recompute; });
  add([first](RandomDeck&, Restart& r) { r.schedule.gather = first.gather; });
  add([first](RandomDeck&, Restart& r) {
    r.schedule.reshard_after_forward = first.reshard_after_forward;
    r.schedule.prefetch = first.prefetch;
  });
  add([first](RandomDeck&, Restart& r) { r.schedule.overlap = first.overlap; });
  add([](RandomDeck& d, Restart& r) {
    r.async = d.config.checkpoint.async;
    r.files = d.config.checkpoint.files;
  });
  add([](RandomDeck&, Restart& r) { r.limits = {}; });
  const std::int64_t done = i == 0 ? deck.config.run.stop_after : deck.restarts[i - 1].until;
  add([done](RandomDeck&, Restart& r) { r.first = done; });
  add([done](RandomDeck&, Restart& r) {
    r.first = done;
    r.other_folder = false;
  });
}

/// Adds changes that make simpler what is no key of the deck, and the restarts fewer.
void add_crossings(std::vector<Action>& changes, const RandomDeck& deck) {
  changes.push_back([](RandomDeck& d) {
    d.config.run.stop_after = 0;
    d.restarts.clear();
    d.change.reset();
  });
  if (!deck.restarts.empty())
    changes.push_back([](RandomDeck& d) {
      d.restarts.pop_back();
      if (!d.restarts.empty()) d.restarts.back().until = 0;
    });
  changes.push_back([](RandomDeck& d) { d.change.reset(); });
  changes.push_back([](RandomDeck& d) { d.setting.weights = WeightFile::none; });
  changes.push_back([](RandomDeck& d) { d.second_setting.weights = WeightFile::none; });
  changes.push_back([](RandomDeck& d) { d.head_tokens = 0; });
  changes.push_back([](RandomDeck& d) { d.skeleton = SkeletonJob::none; });
  if (deck.skeleton == SkeletonJob::cuda) changes.push_back([](RandomDeck& d) { d.skeleton = SkeletonJob::host; });
  for (Setting RandomDeck::*setting : {&RandomDeck::setting, &RandomDeck::second_setting})
    for (const auto& reset : {+[](Limits& l) { l.direct_ranks = 0; }, +[](Limits& l) { l.message_bytes = 0; },
                              +[](Limits& l) { l.threads = 0; }})
      changes.push_back([setting, reset](RandomDeck& d) { reset((d.*setting).limits); });
  for (std::size_t i = 0; i < deck.restarts.size(); ++i) add_restart(changes, deck, i);
  if (deck.restarts.size() != 1) return;
  const std::int64_t stop = deck.config.run.stop_after;
  for (const std::int64_t step : {std::int64_t{1}, stop / 2, stop - 1})
    if (step >= 1 && step < stop)
      changes.push_back([step](RandomDeck& d) { d.config.run.stop_after = d.restarts.front().first = step; });
}

/// Changes that may make this deck smaller, beginning with the largest ones.
std::vector<Action> changes_of(const RandomDeck& deck) {
  const Config& c = deck.config;
  std::vector<Action> changes;
  add_smaller(
      changes, c.mesh.replicate, 1, [](RandomDeck & d) -> auto& { return d.config.mesh.replicate; });
  add_smaller(
      changes, c.mesh.tensor, 1, [](RandomDeck & d) -> auto& { return d.config.mesh.tensor; });
  add_smaller(
      changes, c.mesh.shard, 1, [](RandomDeck & d) -> auto& { return d.config.mesh.shard; });
  for (const std::int64_t layers : {std::int64_t{1}, c.model.layers / 2, c.model.layers - 1}) {
    if (layers < 1 || layers >= c.model.layers) continue;
    changes.push_back([layers](RandomDeck& d) {
      d.config.model.layers = layers;
      d.config.fsdp.prefetch = std::min(d.config.fsdp.prefetch, layers);
      d.second.prefetch = std::min(d.second.prefetch, layers);
      for (Restart& r : d.restarts) r.schedule.prefetch = std::min(r.schedule.prefetch, layers);
      d.config.fp8.first_layers_bf16 = d.config.fp8.last_layers_bf16 = 0;
    });
  }
  if (deck.source.form != DataSource::Form::none)
    changes.push_back([](RandomDeck& d) { d.source.form = DataSource::Form::none; });
  add_smaller(
      changes, c.run.steps, 1, [](RandomDeck & d) -> auto& { return d.config.run.steps; });
  for (const Generator& generator : generators()) {
    const deck::Field& field = deck::field_at(generator.path);
    if (field.required || generator.path == "data.path" || generator.path == "mesh.tensor") continue;
    if (deck::value_text(field, c) != deck::value_text(field, Config{}))
      changes.push_back([path = generator.path](RandomDeck& d) { reset(path, d); });
  }
  const Schedule first = schedule_of(c);
  changes.push_back([first](RandomDeck& d) { d.second.recompute = first.recompute; });
  changes.push_back([first](RandomDeck& d) { d.second.reshard_after_forward = first.reshard_after_forward; });
  changes.push_back([first](RandomDeck& d) { d.second.prefetch = first.prefetch; });
  changes.push_back([first](RandomDeck& d) {
    d.second.gather = first.gather;
    d.second.weights = first.weights;
  });
  changes.push_back([first](RandomDeck& d) { d.second.deterministic = first.deterministic; });
  changes.push_back([first](RandomDeck& d) { d.second.overlap = first.overlap; });
  add_crossings(changes, deck);
  add_smaller(
      changes, c.data.batch, 1, [](RandomDeck & d) -> auto& { return d.config.data.batch; });
  add_smaller(
      changes, c.model.seq, 1, [](RandomDeck & d) -> auto& { return d.config.model.seq; });
  add_smaller(
      changes, c.model.vocab, 2, [](RandomDeck & d) -> auto& { return d.config.model.vocab; });
  add_smaller(
      changes, c.model.ffn, c.mesh.tensor, [](RandomDeck & d) -> auto& { return d.config.model.ffn; });
  for (const std::int64_t heads : {c.mesh.tensor, c.model.heads / 2}) {
    if (heads < 1 || heads >= c.model.heads) continue;
    changes.push_back([heads](RandomDeck& d) {
      deck::ModelConfig& m = d.config.model;
      const std::int64_t width = m.head_width();
      if (m.query_width() == m.hidden) m.hidden = width * heads;
      m.heads = m.kv_heads = heads;
    });
  }
  const std::int64_t width = c.model.head_width();
  for (const std::int64_t smaller : {std::int64_t{2}, width / 2, width - 2})
    if (smaller >= (c.model.qk_norm ? kLeastNormed : 1) && smaller < width)
      changes.push_back([smaller](RandomDeck& d) {
        deck::ModelConfig& m = d.config.model;
        if (m.query_width() == m.hidden) m.hidden = m.heads * smaller;
        m.head_dim = smaller;
      });
  return changes;
}

/// The deck after the change; nothing if the change leaves it as it is or the checks reject it.
std::optional<RandomDeck> changed(const RandomDeck& deck, const Action& change, const std::filesystem::path& folder) {
  RandomDeck smaller = deck;
  change(smaller);
  if (smaller.config.model.hidden < kLeastNormed) return std::nullopt;
  try {
    provide_data(smaller, folder);
    const Config second = with_schedule(smaller.config, smaller.second);
    smaller.config = loaded(smaller.config);
    smaller.second = schedule_of(loaded(second));
    if (!restarts_fit(smaller)) return std::nullopt;
    for (std::size_t i = 0; i < smaller.restarts.size(); ++i) loaded(restarted(smaller, i));
    if (smaller.skeleton != SkeletonJob::none) skeleton_of(smaller);
    alone(smaller.config);
    alone(loaded(changed(smaller, smaller.config)));
  } catch (const base::Error&) {
    return std::nullopt;
  }
  const auto text = [](const RandomDeck& d) { return text_of(d) + short_yaml(with_schedule(d.config, d.second)); };
  if (text(smaller) == text(deck)) return std::nullopt;
  return smaller;
}

}  // namespace

Shrunk shrink(const RandomDeck& deck, const Verdict& verdict, const std::filesystem::path& folder,
              const std::function<Verdict(const RandomDeck&)>& run) {
  Shrunk smallest{deck, verdict, 0};
  const std::string_view kind = bounds_of(deck.config).kind;  // decks of other kinds have other bounds
  for (bool progress = true; progress && smallest.trials < kMostTrials;) {
    progress = false;
    // After each success the list is that of the smaller deck; changes that failed before are tried again only
    // in the next round.
    const std::size_t count = changes_of(smallest.deck).size();
    for (std::size_t i = 0; i < count && smallest.trials < kMostTrials; ++i) {
      const std::vector<Action> changes = changes_of(smallest.deck);
      if (i >= changes.size()) break;
      const auto smaller = changed(smallest.deck, changes[i], folder);
      if (!smaller) continue;
      ++smallest.trials;
      const Verdict now = run(*smaller);
      if (now.failure != verdict.failure || bounds_of(smaller->config).kind != kind) continue;
      smallest.deck = *smaller;
      smallest.verdict = now;
      progress = true;
    }
  }
  return smallest;
}

}  // namespace shard8::test

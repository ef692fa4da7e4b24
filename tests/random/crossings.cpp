// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "tests/random/random_deck.hpp"

// What is drawn beside the keys of a deck: thresholds, threads, files of weights, restarts.

namespace shard8::test {

namespace {

using deck::Config;
using deck::Recipe;

/// Steps of checkpoints that are there when the training from `begin` to `end` has ended, but for the last one.
std::vector<std::int64_t> older_steps(const deck::CheckpointConfig& c, std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> steps;
  if (c.every == 0) return steps;
  for (std::int64_t step = begin + 1; step < end; ++step)
    if (step % c.every == 0) steps.push_back(step);
  const std::size_t kept = std::min(steps.size(), static_cast<std::size_t>(c.keep - 1));
  steps.erase(steps.begin(), steps.end() - static_cast<std::ptrdiff_t>(kept));
  return steps;
}

Limits draw_limits(Draw& draw) {
  Limits limits;
  if (draw.chance(0.6)) limits.direct_ranks = draw.one_of({1, 1, 2, 3});
  // The least is chosen by time, which grows faster than the square of the number of messages, because MPI searches a
  // list of the posted ones for each that arrives. A deck with 0.24 MB of gradients, on nine ranks and two cores, took
  // 413 s of processor time with messages of 4 bytes, 10 s with 20, 2.3 s with 100 and 1.5 s with 1,000. None hung.
  if (draw.chance(0.4)) limits.message_bytes = draw.one_of({100, 1000, 2052, 4096, 16384});
  if (draw.chance(0.3)) limits.threads = draw.one_of({1, 2, 3});
  return limits;
}

WeightFile draw_file(Draw& draw) {
  return draw.one_of({WeightFile::hdf5, WeightFile::hdf5_bits, WeightFile::safetensors, WeightFile::checkpoint});
}

/// Draws one to three keys that a restart changes.
Change draw_change(const Config& c, Draw& draw) {
  Change change{c.optimizer, c.data.seed, c.fp8.margin};
  deck::OptimizerConfig& o = change.optimizer;
  const auto one = [&] {
    switch (draw.between(0, 6)) {
      case 0:
        o.lr = draw.log_real(1e-4, 3e-3);
        o.min_lr = std::min(o.min_lr, o.lr);
        return;
      case 1:
        o.weight_decay = draw.real(0, 0.5);
        return;
      case 2:
        o.clip = o.clip == 0 || draw.chance(0.5) ? draw.log_real(0.01, 10) : 0;
        return;
      case 3:
        if (o.beta1 > 0) o.beta1 = draw.real(0.5, 0.94);
        return;
      case 4:
        o.decay_steps = o.warmup + draw.between(1, 10);
        return;
      case 5:
        change.data_seed = draw.bits();
        return;
      default:
        const bool scales = c.fp8.recipe == Recipe::delayed || c.fp8.recipe == Recipe::current;
        if (scales) change.fp8_margin = draw.between(-1, 4);
        return;
    }
  };
  for (std::int64_t i = draw.between(1, 3); i > 0; --i) one();
  return change;
}

void draw_restarts(RandomDeck& d, Draw& draw) {
  const std::int64_t steps = d.config.run.steps;
  const std::int64_t most = draw.chance(0.5) ? 1 : draw.between(2, 3);
  std::int64_t begin = 0, done = d.config.run.stop_after;
  for (std::int64_t i = 0; i < most; ++i) {
    Restart restart = draw_restart(d.config, d.most_ranks, draw);
    restart.limits = draw_limits(draw);
    restart.first = done;
    restart.other_folder = draw.chance(0.4);
    const auto older = older_steps(d.config.checkpoint, begin, done);
    if (restart.other_folder && !older.empty() && draw.chance(0.8))
      restart.first = draw.one_of(std::span<const std::int64_t>(older));
    const bool last = i + 1 == most || restart.first + 1 >= steps;
    restart.until = last ? 0 : draw.between(restart.first + 1, steps - 1);
    d.restarts.push_back(restart);
    if (last) return;
    begin = restart.first;
    done = restart.until;
  }
}

std::string text_of(const Limits& limits) {
  std::string text;
  if (limits.direct_ranks > 0) text += fmt::format(", direct_ranks {}", limits.direct_ranks);
  if (limits.message_bytes > 0) text += fmt::format(", message_bytes {}", limits.message_bytes);
  if (limits.threads > 0) text += fmt::format(", kernels on {} threads", limits.threads);
  return text;
}

const char* name_of(WeightFile file) {
  constexpr const char* kNames[] = {"none", "HDF5", "HDF5 with bits", "safetensors", "a checkpoint"};
  return kNames[static_cast<std::size_t>(file)];
}

std::string text_of(const char* what, const Setting& setting) {
  std::string text = text_of(setting.limits);
  if (setting.weights != WeightFile::none) text += fmt::format(", model.init_file: {}", name_of(setting.weights));
  return text.empty() ? text : fmt::format("# {}{}\n", what, text);
}

void draw_skeleton(RandomDeck& deck, Draw& draw) {
  deck.skeleton = draw.chance(0.5) ? SkeletonJob::cuda : SkeletonJob::host;
  try {
    skeleton_of(deck);
  } catch (const base::Error&) {
    deck.skeleton = SkeletonJob::host;
  }
}

}  // namespace

void draw_crossings(RandomDeck& deck, std::uint64_t seed, std::int64_t number, std::int64_t attempt) {
  const auto draw_of = [&](std::string_view key) { return Draw(seed, number, attempt, key); };
  Draw limits = draw_of("limits"), second_limits = draw_of("second limits"), head = draw_of("head tokens"),
       files = draw_of("weight files"), skeleton = draw_of("skeleton"), restart = draw_of("restart"),
       change = draw_of("change");
  deck.setting.limits = draw_limits(limits);
  deck.second_setting.limits = draw_limits(second_limits);
  deck.head_tokens = head.chance(0.5) ? 0 : head.between(1, 24);
  if (files.chance(0.2)) deck.setting.weights = draw_file(files);
  if (files.chance(0.2)) deck.second_setting.weights = draw_file(files);
  deck.skeleton = SkeletonJob::none;
  if (skeleton.chance(0.2)) draw_skeleton(deck, skeleton);
  deck.restarts.clear();
  deck.change.reset();
  if (deck.config.run.stop_after == 0) return;
  draw_restarts(deck, restart);
  if (change.chance(0.4)) deck.change = draw_change(deck.config, change);
  SHARD8_REQUIRE(restarts_fit(deck), "restarts were drawn that have no checkpoints");
}

Config changed(const RandomDeck& deck, Config config) {
  if (!deck.change) return config;
  config.optimizer = deck.change->optimizer;
  config.data.seed = deck.change->data_seed;
  config.fp8.margin = deck.change->fp8_margin;
  return config;
}

Config skeleton_of(const RandomDeck& deck) {
  Config c = deck.config;
  c.run.stop_after = 0;
  c.run.skeleton = deck::Skeleton::communication;
  if (deck.skeleton == SkeletonJob::cuda) {
    c.mesh.device = deck::Device::cuda;
    c.mesh.backend = deck::Backend::automatic;
  }
  return loaded(c);
}

std::optional<std::int64_t> change_step(const RandomDeck& deck) {
  if (!deck.change || deck.restarts.empty()) return std::nullopt;
  return deck.restarts.front().first;
}

bool restarts_fit(const RandomDeck& deck) {
  const std::int64_t steps = deck.config.run.steps;
  if (deck.config.run.stop_after == 0) return deck.restarts.empty();
  if (deck.restarts.empty() || deck.config.run.stop_after >= steps) return false;
  std::int64_t begin = 0, done = deck.config.run.stop_after;
  for (std::size_t i = 0; i < deck.restarts.size(); ++i) {
    const Restart& r = deck.restarts[i];
    const auto older = older_steps(deck.config.checkpoint, begin, done);
    const bool is_older = r.other_folder && std::find(older.begin(), older.end(), r.first) != older.end();
    if (r.first != done && !is_older) return false;
    const bool last = i + 1 == deck.restarts.size();
    if (last != (r.until == 0) || (!last && (r.until <= r.first || r.until >= steps))) return false;
    begin = r.first;
    done = r.until;
  }
  return true;
}

Config restarted(const RandomDeck& deck, std::size_t index) {
  const Restart& r = deck.restarts.at(index);
  Config c = changed(deck, deck.config);
  c.run.stop_after = r.until == 0 ? 0 : r.until - r.first;
  if (!r.same_mesh) {
    c.mesh = r.mesh;
    c.data.micro_batch = r.micro_batch;
  }
  Schedule schedule = r.schedule;
  schedule.weights = c.fp8.weights;
  c = with_schedule(c, schedule);
  c.checkpoint.async = r.async;
  c.checkpoint.files = r.files;
  c.checkpoint.allow_changes = deck.change.has_value() && index == 0;
  return c;
}

std::string setting_text(const RandomDeck& deck) {
  std::string text = text_of("the deck", deck.setting) + text_of("with the second schedule", deck.second_setting);
  if (deck.head_tokens > 0) text += fmt::format("# chunks of the head: {} tokens\n", deck.head_tokens);
  if (deck.skeleton != SkeletonJob::none)
    text += fmt::format("# and its skeleton on {}\n", deck.skeleton == SkeletonJob::cuda ? "devices" : "hosts");
  for (std::size_t i = 0; i < deck.restarts.size(); ++i) {
    const Restart& r = deck.restarts[i];
    text += fmt::format("# restart {} at step {}{}{}{}\n", i + 1, r.first, r.other_folder ? " into another folder" : "",
                        i == 0 && deck.change ? ", with other keys" : "", text_of(r.limits));
  }
  return text;
}

}  // namespace shard8::test

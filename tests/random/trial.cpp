// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/random/trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "deck/choices.hpp"
#include "deck/fields.hpp"
#include "deck/layout.hpp"
#include "profile/compare/comparison.hpp"
#include "tensor/runtime.hpp"

namespace shard8::test {

namespace {

using deck::Config;
using deck::FloatType;
using deck::Recipe;

double relative(double a, double b) {
  if (!std::isfinite(a) && !std::isfinite(b)) return 0;  // both diverged
  if (!std::isfinite(a) || !std::isfinite(b)) return std::numeric_limits<double>::infinity();
  return a == b ? 0 : std::abs(a - b) / std::max(std::abs(a), std::abs(b));
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

/// Whether two runs have the same first `steps` steps, bit for bit.
bool begin_equally(const Outcome& whole, const Outcome& other, std::int64_t steps) {
  const auto first = [steps](const std::vector<double>& all) {
    const auto count = std::min(static_cast<std::ptrdiff_t>(all.size()), static_cast<std::ptrdiff_t>(steps));
    return std::vector<double>(all.begin(), all.begin() + count);
  };
  return same_bits(first(whole.losses), first(other.losses)) && same_bits(first(whole.norms), first(other.norms));
}

std::string both(const char* what, const std::vector<double>& got, const char* got_name,
                 const std::vector<double>& want, const char* want_name) {
  std::string text = fmt::format("  {:<14} {:>24} {:>24} {:>10}\n", what, got_name, want_name, "relative");
  for (std::size_t s = 0; s < std::min(got.size(), want.size()); ++s)
    text +=
        fmt::format("  step {:<9} {:>24.17g} {:>24.17g} {:>10.2e}\n", s, got[s], want[s], relative(got[s], want[s]));
  return text;
}

std::string table(const Outcome& got, const char* got_name, const Outcome& want, const char* want_name) {
  return both("loss", got.losses, got_name, want.losses, want_name) +
         both("gradient norm", got.norms, got_name, want.norms, want_name);
}

/// Sets micro-batches as large as the recipe allows on one rank.
std::int64_t natural_micro_batch(const Config& c) {
  Config one = c;
  one.data.micro_batch = 0;
  try {
    loaded(one);
    return 0;
  } catch (const base::Error&) {
    return deck::lay_out(c).micro_batch;
  }
}

}  // namespace

Config alone(const Config& config) {
  Config c = with_schedule(config, Schedule{.weights = config.fp8.weights});
  const std::int64_t micro_batch = deck::lay_out(config).micro_batch;
  c.mesh.replicate = c.mesh.shard = c.mesh.tensor = c.mesh.expert = 1;
  c.data.micro_batch = micro_batch;
  c.data.micro_batch = natural_micro_batch(c);
  if (c.optimizer.clip == 0) c.optimizer.clip = deck::kMostFloat;
  c.run.stop_after = 0;
  return loaded(c);
}

std::optional<Config> alone_in_fp32(const Config& config) {
  Config c = config;
  if (!c.fp8.on() && c.precision.compute == FloatType::fp32 && c.precision.reduce == FloatType::fp32 &&
      c.optimizer.moments == FloatType::fp32)
    return {};
  c.fp8 = {};
  c.precision.compute = c.precision.reduce = FloatType::fp32;
  c.optimizer.master = deck::Master::fp32;
  c.optimizer.moments = FloatType::fp32;
  c.fsdp.gather = deck::Gather::automatic;
  c.model.moe.dispatch = deck::MoeDispatch::automatic;
  return alone(c);
}

/// One and a half to three times the largest difference between equally right trainings, as --spread measured it over
/// 1,500 decks (docs/results/tests.json, random_decks_spread). For losses in FP32 it is what the design promises.
Bounds bounds_of(const Config& c) {
  switch (c.fp8.recipe) {
    case Recipe::delayed:
      return {"delayed", {1.5e-2, 1e-1, 5e-2, 3.5e-1}};
    case Recipe::current:
      return {"current", {2e-2, 6e-2, 3e-2, 1.5e-1}};
    case Recipe::block:
      return {"block", {4e-3, 2e-2, 2e-2, 1.2e-1}};
    case Recipe::mxfp8:
      return {"mxfp8", {1.5e-3, 2.5e-2, 7e-2, 1.2e-1}};
    case Recipe::none:
      break;
  }
  if (c.precision.compute == FloatType::bf16) return {"bf16", {1e-3, 1e-2, 2e-3, 5e-2}};
  if (c.precision.reduce == FloatType::bf16) return {"fp32, reduce bf16", {2e-6, 4e-3, 5e-4, 1e-2}};
  return {"fp32", {2e-6, 2e-6, 2e-6, 2e-5}};
}

void Spread::raise(const Spread& other) {
  for (const auto member : kSpreadMembers) this->*member = std::max(this->*member, other.*member);
}

std::string text_of(const RandomDeck& deck) {
  std::string text = setting_text(deck) + short_yaml(deck.config);
  for (std::size_t i = 0; i < deck.restarts.size(); ++i) {
    const Config c = loaded(restarted(deck, i));
    text += fmt::format("\nThe deck of restart {}, on {} ranks:\n\n{}", i + 1, c.mesh.ranks(), short_yaml(c));
  }
  return text;
}

namespace {

/// A training whose keys change as those of the deck do.
Job whole_job(const RandomDeck& deck, const Config& config, const Config& with_change, const std::string& name) {
  Job job{.config = config, .name = name + "\n" + setting_text(deck) + short_yaml(config)};
  if (const auto step = change_step(deck)) {
    job.change_at = *step;
    job.changed = with_change;
    job.name += "\nFrom step " + std::to_string(*step) + " on:\n" + short_yaml(with_change);
  }
  return job;
}

}  // namespace

std::optional<Job> job_in_fp32(const RandomDeck& deck, const std::string& name) {
  const auto config = alone_in_fp32(deck.config);
  if (!config) return std::nullopt;
  return whole_job(deck, *config, alone_in_fp32(changed(deck, deck.config)).value(), name + ", on one rank in FP32");
}

std::vector<Job> neighbour_jobs(const RandomDeck& deck, const std::string& name) {
  std::vector<Job> jobs;
  for (const double parts : {-2, -1, 1, 2}) {
    const auto moved = [&](Config c) {
      c.optimizer.lr *= 1 + parts * 1e-6;
      return alone(c);
    };
    jobs.push_back(whole_job(deck, moved(deck.config), moved(changed(deck, deck.config)), name + ", a neighbour"));
  }
  return jobs;
}

Job skeleton_job(const RandomDeck& deck, const std::string& name) {
  const Config config = skeleton_of(deck);
  Job job{.config = config, .name = name + ", its skeleton\n" + setting_text(deck) + short_yaml(config)};
  job.limits = deck.setting.limits;
  job.head_tokens = deck.head_tokens;
  job.counts = true;
  return job;
}

std::vector<Job> jobs_of(const RandomDeck& deck, const std::string& name, const std::string& folder) {
  Config whole = deck.config;
  whole.run.stop_after = 0;
  const Config later = changed(deck, whole);
  std::vector<Job> jobs{whole_job(deck, whole, later, name + ", on its mesh"),
                        whole_job(deck, with_schedule(whole, deck.second), with_schedule(later, deck.second),
                                  name + ", on its mesh with the second schedule"),
                        whole_job(deck, alone(whole), alone(later), name + ", on one rank")};
  const auto set = [&](Job& job, const Limits& limits) {
    job.limits = limits;
    job.head_tokens = deck.head_tokens;
  };
  set(jobs[0], deck.setting.limits);
  set(jobs[1], deck.second_setting.limits);
  jobs[0].weights = deck.setting.weights;
  jobs[1].weights = deck.second_setting.weights;
  const auto add_skeleton = [&] {
    if (deck.skeleton == SkeletonJob::none) return;
    // A skeleton dispatches mean rows.
    jobs[0].counts = jobs[0].change_at == 0 && deck.skeleton == SkeletonJob::host && deck.config.mesh.expert == 1;
    jobs.push_back(skeleton_job(deck, name));
  };
  if (deck.config.run.stop_after == 0) {
    add_skeleton();
    return jobs;
  }
  const std::string decks = "\n" + text_of(deck);
  Job part{.config = deck.config, .name = name + ", on its mesh, stopped" + decks, .checkpoints = folder};
  set(part, deck.setting.limits);
  part.weights = deck.setting.weights;
  jobs.push_back(part);
  part.weights = WeightFile::none;
  for (std::size_t i = 0; i < deck.restarts.size(); ++i) {
    const Restart& restart = deck.restarts[i];
    part.config = loaded(restarted(deck, i));
    part.name = fmt::format("{}, restart {}{}", name, i + 1, decks);
    part.first = restart.first;
    part.part = static_cast<int>(i) + 1;
    part.from.reset();
    if (restart.other_folder) part.from = part.folder++;
    set(part, restart.limits);
    jobs.push_back(part);
  }
  add_skeleton();
  return jobs;
}

Spread difference_of(const Outcome& a, const Outcome& b) {
  Spread d;
  for (std::size_t s = 0; s < std::min(a.losses.size(), b.losses.size()); ++s) {
    const double loss = relative(a.losses[s], b.losses[s]), norm = relative(a.norms[s], b.norms[s]);
    d.raise(s == 0 ? Spread{loss, norm, 0, 0} : Spread{0, 0, loss, norm});
  }
  return d;
}

namespace {

constexpr double kFurther = 1.5;  // chosen: all are right, and none is the closest one

/// Whether the training on the mesh is about as close to the one in FP32 as the one on one rank is. False without one.
bool as_close_to(const Outcome* in_fp32, const Outcome& mesh, const Outcome& one, const Bounds& bounds) {
  if (in_fp32 == nullptr || !in_fp32->error.empty()) return false;
  Spread most = difference_of(one, *in_fp32);
  for (const auto member : kSpreadMembers) most.*member *= kFurther;
  most.raise(bounds.most);
  return difference_of(mesh, *in_fp32).within(most);
}

/// Whether the training on the mesh is about as close to the one on one rank as the neighbours are to each other. False
/// without neighbours.
bool among(std::span<const Outcome> neighbours, const Outcome& mesh, const Outcome& one, const Bounds& bounds) {
  Spread most;
  for (std::size_t i = 0; i < neighbours.size(); ++i) {
    if (!neighbours[i].error.empty()) return false;
    most.raise(difference_of(neighbours[i], one));
    for (std::size_t j = 0; j < i; ++j) most.raise(difference_of(neighbours[i], neighbours[j]));
  }
  for (const auto member : kSpreadMembers) most.*member *= kFurther;
  most.raise(bounds.most);
  return !neighbours.empty() && difference_of(mesh, one).within(most);
}

bool passes(const Doubt& doubt, const Outcome& mesh, const Outcome& one, const Bounds& bounds) {
  return as_close_to(doubt.in_fp32, mesh, one, bounds) || among(doubt.neighbours, mesh, one, bounds);
}

std::string mesh_text(const deck::MeshConfig& m) { return fmt::format("{} x {} x {}", m.replicate, m.shard, m.tensor); }

/// What was trained in several parts, without the steps that a restart from an older checkpoint trained again.
struct Joined {
  Outcome all;
  std::int64_t exact = 0;  ///< the first steps, which were all trained on the deck's mesh
  std::uint64_t weights = 0;
};

Joined joined(const RandomDeck& deck, std::span<const Outcome> parts) {
  Joined j{parts[0], deck.config.run.stop_after, parts.back().weights};
  const auto append = [](std::vector<double>& to, const std::vector<double>& from, std::int64_t first) {
    to.resize(std::min(to.size(), static_cast<std::size_t>(first)));
    to.insert(to.end(), from.begin(), from.end());
  };
  bool on_mesh = true;
  for (std::size_t i = 0; i < deck.restarts.size(); ++i) {
    const Restart& restart = deck.restarts[i];
    append(j.all.losses, parts[i + 1].losses, restart.first);
    append(j.all.norms, parts[i + 1].norms, restart.first);
    on_mesh = on_mesh && restart.same_mesh;
    j.exact = std::min(j.exact, restart.first);
    if (on_mesh) j.exact = restart.until == 0 ? deck.config.run.steps : restart.until;
  }
  return j;
}

/// Holds a training that was stopped and went on against the training that was not. As long as all parts were on one
/// mesh they are equal bit for bit; on other meshes the parts together are within the bounds of the training on one
/// rank. `parts`: the stopped one, and one for each restart.
Verdict judge_restarts(const RandomDeck& deck, const Outcome& mesh, const Outcome& one, std::span<const Outcome> parts,
                       const Doubt& doubt) {
  Verdict v;
  // The steps after a change, which an older checkpoint leaves behind, are in no other training.
  const std::int64_t stop = std::min(deck.config.run.stop_after, change_step(deck).value_or(deck.config.run.steps));
  const Outcome& stopped = parts[0];
  if (static_cast<std::int64_t>(stopped.losses.size()) != deck.config.run.stop_after ||
      !begin_equally(mesh, stopped, stop)) {
    v.failure = Failure::stopped_badly;
    v.text = fmt::format("run.stop_after = {} does not give the first steps of the whole run\n{}",
                         deck.config.run.stop_after, table(stopped, "stopped", mesh, "whole"));
    return v;
  }
  const Joined j = joined(deck, parts);
  const bool same_length = j.all.losses.size() == mesh.losses.size() && j.all.norms.size() == mesh.norms.size();
  const bool all_exact = j.exact == deck.config.run.steps;
  v.difference = difference_of(j.all, one);
  const Bounds bounds = bounds_of(deck.config);
  const bool exact = same_length && begin_equally(mesh, j.all, j.exact) && (!all_exact || j.weights == mesh.weights);
  const bool good = exact && (all_exact || v.difference.within(bounds.most) || passes(doubt, j.all, one, bounds));
  if (good) return v;
  v.failure = Failure::restarted_badly;
  std::string how = "the training with restarts";
  for (std::size_t i = 0; i < deck.restarts.size(); ++i)
    how += fmt::format("{} at step {} on the mesh {}", i == 0 ? "" : ",", deck.restarts[i].first,
                       mesh_text(restarted(deck, i).mesh));
  if (!exact) {
    v.text = fmt::format(
        "{} gives other bits in the first {} steps than the run that was not stopped\n{}"
        "  weights after the last step {}\n",
        how, j.exact, table(j.all, "restarted", mesh, "not stopped"), j.weights == mesh.weights ? "equal" : "differ");
  } else {
    v.text = fmt::format("{} differs from one rank by more than is allowed ({})\n{}", how, bounds.kind,
                         table(j.all, "restarted", one, "on one rank"));
  }
  return v;
}

/// The first unit whose FP8 weights have another norm in the first step. Equal initial masters give equal bytes and
/// scales on every mesh; norms round where a row is cut over tensor ranks, on devices in fp32.
std::optional<std::size_t> other_first_weights(const Outcome& mesh, const Outcome& one) {
  constexpr double kRounding = tensor::kDevice ? 1e-6 : 1e-12;
  const std::size_t units = mesh.losses.empty() ? 0 : mesh.weight_norms.size() / mesh.losses.size();
  for (std::size_t u = 0; u < units; ++u)
    if (profile::relative_difference(mesh.weight_norms[u], one.weight_norms.at(u)) > kRounding) return u;
  return std::nullopt;
}

}  // namespace

Verdict judge_skeleton(const RandomDeck& deck, const Outcome& skeleton, const Outcome* training) {
  if (!skeleton.error.empty()) return {Failure::threw, "threw: " + skeleton.error + "\n", {}};
  if (!skeleton.unplanned.empty())
    return {Failure::skeleton_differs, "has a skeleton with other collectives than planned\n" + skeleton.unplanned, {}};
  const bool compares = training != nullptr && !training->collectives.empty();
  if (compares && skeleton.collectives != training->collectives)
    return {Failure::skeleton_differs,
            fmt::format("has a skeleton with other collectives than its training\nskeleton:\n{}training:\n{}",
                        skeleton.collectives, training->collectives),
            {}};
  const bool silent = deck.config.mesh.ranks() > 1 && deck.config.run.steps > 1 && skeleton.collectives.empty();
  if (silent) return {Failure::skeleton_differs, "has a skeleton without collectives\n", {}};
  return {};
}

Verdict judge(const RandomDeck& deck, std::span<const Outcome> outcomes, const Doubt& doubt) {
  const Outcome &mesh = outcomes[0], &second = outcomes[1], &one = outcomes[2];
  if (deck.skeleton != SkeletonJob::none) {
    const Verdict of_skeleton = judge_skeleton(deck, outcomes.back(), &mesh);
    if (of_skeleton.failure != Failure::none) return of_skeleton;
    outcomes = outcomes.first(outcomes.size() - 1);
  }
  Verdict v;
  for (const Outcome& outcome : outcomes)
    if (!outcome.error.empty()) return {Failure::threw, "threw: " + outcome.error + "\n", {}};
  v.difference = difference_of(mesh, one);
  const Bounds bounds = bounds_of(deck.config);
  const bool other_weights =
      !mesh.weight_norms.empty() && !second.weight_norms.empty() && !same_bits(mesh.weight_norms, second.weight_norms);
  if (!same_bits(mesh.losses, second.losses) || !same_bits(mesh.norms, second.norms) ||
      !same_bits(mesh.unit_norms, second.unit_norms) || other_weights || mesh.weights != second.weights) {
    v.failure = Failure::other_bits;
    const Config with_second = with_schedule(deck.config, deck.second);
    v.text = fmt::format(
        "gives other bits with recompute {}, reshard_after_forward {}, prefetch {}, gather {}, weights {}, overlap "
        "{}\n{}"
        "  weights after the last step {}\n",
        deck::to_string(with_second.model.recompute), with_second.fsdp.reshard_after_forward, with_second.fsdp.prefetch,
        deck::to_string(with_second.fsdp.gather), deck::to_string(with_second.fp8.weights), with_second.overlap.enable,
        table(mesh, "of the deck", second, "second schedule"), mesh.weights == second.weights ? "equal" : "differ");
  } else if (const auto unit = other_first_weights(mesh, one)) {
    v.failure = Failure::differs;
    v.text = fmt::format("begins with other FP8 weights than one rank: unit {} has norms {} and {}\n", *unit,
                         mesh.weight_norms[*unit], one.weight_norms[*unit]);
  } else if (!v.difference.within(bounds.most) && !passes(doubt, mesh, one, bounds)) {
    v.failure = Failure::differs;
    const Spread& most = bounds.most;
    v.text = fmt::format(
        "differs from one rank; allowed are, relative ({}): first loss {:.1e}, first norm {:.1e}, later losses {:.1e}, "
        "later norms {:.1e}\n{}",
        bounds.kind, most.first_loss, most.first_norm, most.loss, most.norm,
        table(mesh, "on the mesh", one, "on one rank"));
  } else if (outcomes.size() > 3) {
    const Verdict restart = judge_restarts(deck, mesh, one, outcomes.subspan(3), doubt);
    v.difference.raise(restart.difference);
    v.failure = restart.failure;
    v.text = restart.text;
  }
  return v;
}

}  // namespace shard8::test

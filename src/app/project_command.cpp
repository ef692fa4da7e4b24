// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "app/commands.hpp"
#include "app/run_report.hpp"
#include "base/arithmetic.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "base/version.hpp"
#include "deck/fields.hpp"
#include "deck/load.hpp"
#include "machine/machine.hpp"
#include "project/report.hpp"
#include "train/plan/plan.hpp"

namespace shard8::app {

namespace {

constexpr std::string_view kDevice[] = {"host", "cuda"};

/// What failures and checkpoints of a deck cost on the machine; nothing, and `missing` the keys, where the machine file
/// does not say enough. Error(deck) where an option is less than what it cannot be less than.
std::optional<project::Failures> failures_of(const ProjectArguments& arguments, const deck::Config& config,
                                             const train::Plan::Checkpoint& checkpoint, const machine::Machine& machine,
                                             std::vector<std::string_view>& missing) {
  const auto need = [&](const machine::Figure& figure, std::string_view key) {
    if (!figure.given()) missing.push_back(key);
  };
  need(machine.failures, "reliability.failures");
  need(machine.restart_s, "reliability.restart");
  need(machine.read_bandwidth, "storage.read");
  const bool sync_given = !config.checkpoint.async && arguments.hold_up_s >= 0;
  if (arguments.durable_s < 0 && !sync_given) need(machine.write_bandwidth, "storage.write");
  if (arguments.hold_up_s < 0 && config.checkpoint.async) need(machine.host_bandwidth, "host.bandwidth");
  if (!missing.empty() || machine.failures.value <= 0) return {};
  project::Failures f;
  f.between_s = 3600 / (machine.failures.value * static_cast<double>(config.mesh.ranks()));
  const auto state = static_cast<double>(checkpoint.state);
  const auto seconds = [&](const machine::Figure& bandwidth) {
    return bandwidth.given() ? state / bandwidth.value : 0.0;
  };
  const double write_s = seconds(machine.write_bandwidth);
  const double copy_s =
      machine.host_bandwidth.given() ? static_cast<double>(checkpoint.copies) / machine.host_bandwidth.value : 0;
  const bool durable_given = arguments.durable_s >= 0, hold_up_given = arguments.hold_up_s >= 0;
  if (config.checkpoint.async) {
    f.durable_s = durable_given ? arguments.durable_s : hold_up_given ? write_s : std::max(write_s, copy_s);
    f.hold_up_s = hold_up_given ? arguments.hold_up_s : copy_s;
    if (f.hold_up_s > f.durable_s && durable_given)
      base::fail(base::ExitCode::deck,
                 "shard8 project: --durable {} is less than the {:.4g} s for which a checkpoint holds training up, by "
                 "host.bandwidth of {}: give --hold-up, too",
                 arguments.durable_s, f.hold_up_s, machine.path);
    if (f.hold_up_s > f.durable_s)
      base::fail(base::ExitCode::deck,
                 "shard8 project: --hold-up {} is more than the {:.4g} s until a checkpoint is durable, by "
                 "storage.write of {}: give --durable, too",
                 arguments.hold_up_s, f.durable_s, machine.path);
  } else {  // training waits until the checkpoint is durable
    f.durable_s = durable_given ? arguments.durable_s : hold_up_given ? arguments.hold_up_s : write_s;
    f.hold_up_s = hold_up_given ? arguments.hold_up_s : f.durable_s;
  }
  f.restart_s = (machine.restart_s.given() ? machine.restart_s.value : 0) + seconds(machine.read_bandwidth);
  return f;
}

/// Projections are of trainings: says what of the deck they leave out or take otherwise, and takes run.skeleton out of
/// it, so that memory is that of a training as well. Returns whether the deck must be loaded again.
bool as_training(const deck::Config& config, ProjectArguments& arguments) {
  if (config.model.moe.experts > 0 && config.model.moe.routing == deck::MoeRouting::zipf && config.model.moe.skew > 0)
    warn(
        fmt::format("moe.routing = zipf, moe.skew = {}: projected as if all experts were used equally; with skew the "
                    "busiest rank takes longer",
                    config.model.moe.skew));
  if (config.run.validate_every > 0)
    warn(fmt::format("run.validate_every = {} is left out: the time of validation is in no step and in no goodput",
                     config.run.validate_every));
  if (config.run.skeleton == deck::Skeleton::none) return false;
  warn(fmt::format("run.skeleton = {} is left out: a training is projected", deck::to_string(config.run.skeleton)));
  for (const char* key : {"run.skeleton=none", "run.skeleton_times=", "run.skeleton_load=0"})
    arguments.deck.overrides.emplace_back(key);
  return true;
}

/// "data.micro_batch=1,2,4".
project::Varied read_varied(const std::string& text) {
  const auto equals = text.find('=');
  project::Varied varied{text.substr(0, equals), {}};
  const std::string values = equals == std::string::npos ? "" : text.substr(equals + 1);
  for (std::size_t at = 0; at < values.size();) {
    const std::size_t comma = std::min(values.find(',', at), values.size());
    varied.values.push_back(values.substr(at, comma - at));
    at = comma + 1;
  }
  const bool empty = varied.values.empty() || values.ends_with(',') ||
                     std::find(varied.values.begin(), varied.values.end(), "") != varied.values.end();
  if (empty)
    base::fail(base::ExitCode::deck,
               "shard8 project: --vary '{}' is not a key with values: write group.key=value,value, as in "
               "data.micro_batch=1,2,4",
               text);
  for (const base::Axis axis : base::kAxes)
    if (varied.key == fmt::format("mesh.{}", name_of(axis)))
      base::fail(base::ExitCode::deck, "shard8 project: --vary '{}': --sweep tries every {}: leave --vary {} out", text,
                 varied.key, varied.key);
  for (auto value = varied.values.begin(); value != varied.values.end(); ++value)
    if (std::find(varied.values.begin(), value, *value) != value)
      base::fail(base::ExitCode::deck, "shard8 project: --vary '{}' has the value {} twice: leave one out", text,
                 *value);
  return varied;
}

/// Error(deck) for a key that two of the texts vary.
std::vector<project::Varied> read_all_varied(const std::vector<std::string>& texts) {
  std::vector<project::Varied> all;
  for (const std::string& text : texts) {
    all.push_back(read_varied(text));
    for (std::size_t i = 0; i + 1 < all.size(); ++i)
      if (all[i].key == all.back().key)
        base::fail(base::ExitCode::deck,
                   "shard8 project: {} is varied twice, by --vary '{}' and by --vary '{}': give all of its values in "
                   "one --vary",
                   all[i].key, texts[i], text);
  }
  return all;
}

/// Error(deck) for options that a sweep would ignore.
void refuse_ignored(const ProjectArguments& arguments) {
  const auto refuse = [](bool given, std::string_view option) {
    if (given) base::fail(base::ExitCode::deck, "shard8 project: {} is of one mesh: leave it out with --sweep", option);
  };
  refuse(!arguments.stack.empty(), "--stack");
  refuse(arguments.sensitivities, "--sensitivities");
  refuse(arguments.hold_up_s >= 0, "--hold-up");
  refuse(arguments.durable_s >= 0, "--durable");
}

int project_sweep(ProjectArguments& arguments, const machine::Machine& machine, const project::Settings& settings) {
  deck::LoadResult deck = deck::load(arguments.deck.path, arguments.deck.overrides, arguments.deck.ranks);
  if (as_training(deck.config, arguments))
    deck = deck::load(arguments.deck.path, arguments.deck.overrides, arguments.deck.ranks);
  print_warnings(deck);
  const std::int64_t ranks = arguments.deck.ranks.value_or(deck.config.mesh.ranks());
  const std::uint64_t most = !arguments.fit.empty()   ? bytes_of(arguments.fit, "shard8 project: --fit")
                             : machine.memory.given() ? static_cast<std::uint64_t>(machine.memory.value)
                                                      : 0;
  if (most == 0)
    base::fail(base::ExitCode::deck,
               "{}: device.memory is not given, so no mesh can be said to fit: give it, or --fit 80GiB", machine.path);
  const std::vector<project::Varied> varied = read_all_varied(arguments.vary);
  const std::string text = deck::read_deck_file(arguments.deck.path);
  const std::vector<std::int64_t> experts = swept_experts(deck.config, arguments.deck, arguments.vary);
  const project::Sweep sweep = project::sweep(ranks, experts, most, machine, settings, varied,
                                              [&](const base::Extents& mesh, std::span<const std::string> given) {
                                                return config_on(mesh, !experts.empty(), arguments.deck, text, given);
                                              });
  if (sweep.rows.empty())
    base::fail(
        base::ExitCode::deck,
        "shard8 project: no mesh of {} is left: {} need more than {:.4g} GiB a rank, {} do not go with the "
        "deck, for {} the machine file does not say enough{}{}",
        base::count(ranks, "rank", "ranks"), sweep.too_large.size(), static_cast<double>(most) / base::kGiB,
        sweep.refused, sweep.not_projected.size(),
        !sweep.not_projected.empty() || !sweep.why.empty() ? "; the first:\n" : "; give more --ranks or a larger --fit",
        !sweep.not_projected.empty() ? sweep.not_projected.front().second : sweep.why);
  std::string changes = arguments.what_if.empty() ? "" : fmt::format("what if    {}\n", arguments.what_if);
  if (arguments.efficiency != 1)
    changes += fmt::format("efficiency {}: times of computation are divided by it\n", arguments.efficiency);
  const std::vector<std::pair<std::string, std::string>> said{
      {"machine", machine.name},
      {"file", machine.path},
      {"version", std::string(base::version().number)},
      {"command", fmt::format("{}", fmt::join(arguments.command, " "))},
      {"what_if", arguments.what_if},
      {"efficiency", fmt::format("{}", arguments.efficiency)}};
  fmt::print("{}", arguments.json ? project::to_json(sweep, said) + '\n'
                                  : fmt::format("projected  on {} ({}), simulated: nothing was measured here\n{}{}",
                                                machine.name, machine.path, changes, project::to_text(sweep)));
  return 0;
}

}  // namespace

int project_command(const ProjectArguments& given) {
  ProjectArguments arguments = given;
  if (arguments.durable_s >= 0 && arguments.hold_up_s > arguments.durable_s)
    base::fail(base::ExitCode::deck,
               "shard8 project: --hold-up {} is more than --durable {}: a checkpoint is durable after it has held "
               "training up; both are seconds from its begin",
               arguments.hold_up_s, arguments.durable_s);
  machine::Machine as_given = machine::read(arguments.machine);
  arguments.deck.overrides.push_back(fmt::format("mesh.device={}", kDevice[as_given.device ? 1 : 0]));
  project::Settings settings;
  settings.efficiency = arguments.efficiency;
  settings.most_factor = arguments.extrapolate;
  std::vector<project::Change> changes;
  if (!arguments.what_if.empty()) changes = project::read_changes(arguments.what_if, "shard8 project: --what-if");
  std::optional<project::Stack> stack;
  if (!arguments.stack.empty()) stack = project::read_stack(arguments.stack);
  if (arguments.sweep) refuse_ignored(arguments);
  if (arguments.sweep) return project_sweep(arguments, project::changed(as_given, changes), settings);

  deck::LoadResult deck = load_for_ranks(arguments.deck, "project", ", or list all meshes with --sweep");
  if (as_training(deck.config, arguments)) deck = load_for_ranks(arguments.deck, "project", "");
  project::Structure structure;
  if (stack) {
    const std::vector<std::string> of_stack = project::overrides(*stack, deck.config);
    arguments.deck.overrides.insert(arguments.deck.overrides.end(), of_stack.begin(), of_stack.end());
    deck = load_for_ranks(arguments.deck, "project", "");
    structure = project::structure_of(*stack, deck.config);
    settings.structure = &structure;
    if (structure.moved_by_kernels) {
      as_given.copies_in_node = false;
      as_given.moved_by_given = true;
    }
  }
  const machine::Machine machine = project::changed(as_given, changes);
  const deck::Config& config = deck.config;
  print_warnings(deck);
  const train::Plan plan = train::make_plan(config, 1);
  const train::Setup setup = train::Setup::make(config, 0, 1);
  train::State state(setup, tensor::ArenaSet::measure());
  const train::Plan::Checkpoint checkpoint = train::checkpoint_bytes(setup, state);  // also of a deck that writes none
  project::Answer answer;
  answer.step = project::project(config, machine, settings);
  answer.worst = project::worst_routing(config, machine, settings);
  answer.efficiency = arguments.efficiency;
  if (stack) answer.stack = stack->name + ' ' + stack->release;
  answer.memory = plan.needed_bytes();
  std::vector<std::string_view> missing;
  answer.failures = failures_of(arguments, config, checkpoint, machine, missing);
  if (!missing.empty())
    answer.no_goodput = fmt::format("{} gives no {}; --hold-up and --durable stand for figures of checkpoints",
                                    machine.path, deck::list_of(missing, "and"));
  else if (!answer.failures)
    answer.no_goodput = fmt::format("{} says that devices never fail", machine.path);
  answer.interval_s = static_cast<double>(config.checkpoint.every) * answer.step.nominal_s;
  if (!arguments.what_if.empty()) {
    answer.changes = arguments.what_if;
    answer.unchanged = project::project_nominal(config, as_given, settings);
  }
  if (arguments.sensitivities || !arguments.what_if.empty())
    answer.sensitivities = project::sensitivities(config, machine, settings);
  if (machine.memory.given() && static_cast<double>(answer.memory) > machine.memory.value)
    warn(
        fmt::format("{}: a rank needs {} bytes, and a device of {} has {:.0f}: the deck does not fit; more ranks, a "
                    "smaller data.micro_batch or model.recompute make it fit",
                    arguments.deck.path, answer.memory, machine.name, machine.memory.value));
  if (!arguments.json) {
    fmt::print("{}", project::to_text(answer, config, machine));
    return 0;
  }
  const base::Version v = base::version();
  profile::SummaryInput input;
  input.command = arguments.command;
  input.version = {{"shard8", std::string(v.number)}, {"git_hash", std::string(v.git_hash)}};
  input.deck = deck_values(deck.echo);
  input.run.backend = machine.device ? "nccl" : "mpi";
  input.run.device = kDevice[machine.device ? 1 : 0];
  input.memory = {{"planned_total", answer.memory}};
  input.end = {.reason = "projected", .steps = config.run.steps};
  fmt::print("{}\n", project::to_json(answer, config, machine, input));
  return 0;
}

}  // namespace shard8::app

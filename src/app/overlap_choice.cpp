// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/overlap_choice.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "bench/overlap_choice.hpp"
#include "bench/overlap_plan.hpp"
#include "bench/overlap_timing.hpp"
#include "comm/agree.hpp"
#include "io/durable_file.hpp"
#include "train/algorithms.hpp"
#include "train/device.hpp"
#include "train/plan/plan.hpp"

namespace shard8::app {

using profile::OverlapChoice;

namespace {

/// Chosen: a run of a small deck starts in about as much.
constexpr double kSeconds = 1;

/// A plan that an earlier run has kept.
struct Kept {
  std::string name, text;
};

/// The name and the text of the first plan that fits; empty if none does. Of those before it the remarks say why they
/// do not.
Kept first_that_fits(const std::vector<Kept>& plans, const bench::OverlapConditions& conditions,
                     const std::vector<OverlapChoice::Row>& rows, std::vector<std::string>& remarks) {
  for (const Kept& kept : plans) {
    if (kept.text.empty()) continue;
    std::string reason;
    try {
      const bench::OverlapPlan plan = bench::overlap_plan_of_text(kept.text);
      if (bench::rows_that_fit(plan, conditions, rows, reason)) return {kept.name, bench::to_text(plan)};
    } catch (const base::Error& e) {
      reason = e.what();
    }
    remarks.push_back(fmt::format("the choice in {} does not fit: {}", kept.name, reason));
  }
  return {};
}

/// Empty if timing takes no more memory than the run. Rank 0 decides for all.
std::string why_not_timed(const train::Assembly& assembly) {
  const train::Setup& setup = assembly.setup();
  const comm::Communicator& world = assembly.mesh().world;
  std::string why;
  comm::agree_on_root(world, 0, [&] {
    const std::size_t needed =
        bench::OverlapTiming::bytes(train::Setup::make(bench::auto_only(setup.config), setup.place, setup.threads));
    const std::size_t planned = train::make_plan(setup.config, setup.threads).total_bytes();
    if (needed > planned)
      why = fmt::format("every auto is off: timing would take {} bytes, more than the {} of the run (shard8 plan)",
                        needed, planned);
  });
  world.broadcast(why, 0);
  return why;
}

OverlapChoice measure(const train::Assembly& assembly, const train::SavedChoices& saved) {
  const train::Setup& setup = assembly.setup();
  const comm::Communicator& world = assembly.mesh().world;
  comm::agree(world, [&] { train::check_device_memory(setup); });
  const auto adopt = [&](kernels::Libraries& libraries) {
    train::AlgorithmsFile file(setup.config.output.dir, world);
    if (!file.adopt(libraries, saved.algorithms)) file.load(libraries);
  };
  return bench::choose_overlap(
      world, bench::time_auto(setup.config, assembly.mesh(), assembly.exec(), setup.threads, kSeconds, adopt));
}

}  // namespace

OverlapDecision decide_overlap(const train::Assembly& assembly, const std::string& machine,
                               const std::string& checkpoint, const train::SavedChoices& saved) {
  const train::Setup& setup = assembly.setup();
  const deck::Config& config = setup.config;
  const comm::Communicator& world = assembly.mesh().world;
  OverlapDecision decision;
  const auto rows = bench::auto_rows(config);
  if (rows.empty()) return decision;
  const bench::OverlapConditions conditions = bench::overlap_conditions(config, machine);
  Kept kept;
  comm::agree_on_root(world, 0, [&] {
    const std::string file = (std::filesystem::path(config.output.dir) / deck::OutputConfig::kOverlap).string();
    kept =
        first_that_fits({{checkpoint, saved.overlap}, {file, io::text_of(file)}}, conditions, rows, decision.remarks);
  });
  world.broadcast(kept.name, 0);
  world.broadcast(kept.text, 0);
  if (!kept.text.empty()) {
    const bench::OverlapPlan plan = bench::overlap_plan_of_text(kept.text);
    std::string reason;
    decision.choice = {.from = "as kept in " + kept.name,
                       .rows = bench::rows_that_fit(plan, plan.conditions, rows, reason).value()};
    decision.plan = kept.text;
    return decision;
  }
  if (const std::string why = why_not_timed(assembly); !why.empty()) {
    decision.remarks.push_back(why);
    return decision;
  }
  if (!decision.remarks.empty()) decision.remarks.back() += "; measured anew";
  decision.choice = measure(assembly, saved);
  decision.plan = bench::to_text({conditions, decision.choice.rows});
  world.broadcast(decision.plan, 0);
  return decision;
}

}  // namespace shard8::app

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/overlap_choice.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

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

/// The first of the plans that fits. Of those before it the remarks say why they do not.
std::optional<OverlapChoice> first_that_fits(const std::vector<Kept>& plans, const bench::OverlapConditions& conditions,
                                             const std::vector<OverlapChoice::Row>& rows,
                                             std::vector<std::string>& remarks) {
  for (const Kept& kept : plans) {
    if (kept.text.empty()) continue;
    std::string reason;
    try {
      const auto fitting = bench::rows_that_fit(bench::overlap_plan_of_text(kept.text), conditions, rows, reason);
      if (fitting) return OverlapChoice{.from = "as kept in " + kept.name, .rows = *fitting};
    } catch (const base::Error& e) {
      reason = e.what();
    }
    remarks.push_back(fmt::format("the choice in {} does not fit: {}", kept.name, reason));
  }
  return std::nullopt;
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
  std::string from, kept;
  comm::agree_on_root(world, 0, [&] {
    const std::string file = (std::filesystem::path(config.output.dir) / deck::OutputConfig::kOverlap).string();
    const auto found =
        first_that_fits({{checkpoint, saved.overlap}, {file, io::text_of(file)}}, conditions, rows, decision.remarks);
    if (!found) return;
    from = found->from;
    kept = bench::to_text({conditions, found->rows});
  });
  world.broadcast(from, 0);
  world.broadcast(kept, 0);
  if (!kept.empty()) {
    decision.choice = {.from = from, .rows = bench::overlap_plan_of_text(kept).rows};
    decision.plan = kept;
    return decision;
  }
  const std::size_t needed =
      bench::OverlapTiming::bytes(train::Setup::make(bench::auto_only(config), setup.place, setup.threads));
  const std::size_t planned = train::make_plan(config, setup.threads).total_bytes();
  if (needed > planned) {
    decision.remarks.push_back(fmt::format(
        "every auto is off: timing would take {} bytes, more than the {} of the run (shard8 plan)", needed, planned));
    return decision;
  }
  if (!decision.remarks.empty()) decision.remarks.back() += "; measured anew";
  decision.choice = measure(assembly, saved);
  decision.plan = bench::to_text({conditions, decision.choice.rows});
  world.broadcast(decision.plan, 0);
  return decision;
}

}  // namespace shard8::app

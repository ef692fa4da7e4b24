// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/overlap/decision.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "comm/agree.hpp"
#include "io/durable_file.hpp"
#include "train/algorithms.hpp"
#include "train/conditions.hpp"
#include "train/device.hpp"
#include "train/overlap/choice.hpp"
#include "train/overlap/timing.hpp"
#include "train/plan/plan.hpp"

namespace shard8::train {

using profile::OverlapChoice;

namespace {

/// For how long exchanges are timed. Chosen: the start of a run of a small deck takes about as long.
constexpr double kSeconds = 1;

/// A choice that an earlier run has kept.
struct Kept {
  std::string name, text;
  /// Conditions that need not be the same. A run that goes on from a checkpoint with a rebuilt program keeps the
  /// checkpoint's choice: on devices another choice may change the bits of the training.
  std::vector<std::string_view> ignored;
};

/// The name of the first choice that fits, and the choice; both empty if none does. Of those before it the remarks say
/// why they do not.
std::pair<std::string, std::string> first_that_fits(const std::vector<Kept>& choices,
                                                    const profile::Conditions& conditions,
                                                    const std::vector<OverlapChoice::Row>& rows,
                                                    std::vector<std::string>& remarks) {
  for (const Kept& kept : choices) {
    std::string reason;
    const auto measurement = profile::measurement_of_text(kept.text, kOverlapKind, reason);
    if (measurement && rows_that_fit(*measurement, conditions, rows, reason, kept.ignored))
      return {kept.name, to_text(*measurement, kOverlapKind)};
    remarks.push_back(fmt::format("the choice in {} does not fit: {}", kept.name, reason));
  }
  return {};
}

/// What the checkpoint and the file of the output folder keep, in the order in which they are asked.
std::vector<Kept> kept_choices(const std::string& checkpoint, const SavedChoices& saved,
                               const std::filesystem::path& folder) {
  std::vector<Kept> kept;
  if (!saved.overlap.empty()) kept.push_back({checkpoint, saved.overlap, {condition::kProgram}});
  const std::filesystem::path file = folder / deck::OutputConfig::kOverlap;
  std::error_code error;
  if (std::filesystem::exists(file, error)) kept.push_back({file.string(), io::text_of(file.string()), {}});
  return kept;
}

/// Empty if timing takes no more memory than the run. Rank 0 decides for all.
std::string why_not_timed(const Assembly& assembly) {
  const Setup& setup = assembly.setup();
  const comm::Communicator& world = assembly.mesh().world;
  std::string why;
  comm::agree_on_root(world, 0, [&] {
    const std::size_t needed =
        OverlapTiming::bytes(Setup::make(auto_only(setup.config), setup.place.rank(), setup.threads));
    const std::size_t planned = make_plan(setup.config, setup.threads).total_bytes();
    if (needed > planned)
      why = fmt::format("every auto is off: timing would take {} bytes, more than the {} of the run (shard8 plan)",
                        needed, planned);
  });
  world.broadcast(why, 0);
  return why;
}

OverlapChoice measure(const Assembly& assembly, const profile::Conditions& job, const SavedChoices& saved) {
  const Setup& setup = assembly.setup();
  const comm::Communicator& world = assembly.mesh().world;
  comm::agree(world, [&] { check_device_memory(setup); });
  const auto adopt = [&](kernels::Libraries& libraries) {
    AlgorithmsFile file(setup.config.output.dir, world, job);
    if (!file.adopt(libraries, saved.algorithms)) file.load(libraries);
  };
  return choose_overlap(world,
                        time_auto(setup.config, assembly.mesh(), assembly.exec(), setup.threads, kSeconds, adopt));
}

}  // namespace

OverlapDecision decide_overlap(Assembly& assembly, const std::string& checkpoint, const SavedChoices& saved) {
  const Setup& setup = assembly.setup();
  const deck::Config& config = setup.config;
  const comm::Communicator& world = assembly.mesh().world;
  OverlapDecision decision;
  const auto rows = auto_rows(config);
  if (rows.empty()) return decision;
  const profile::Conditions& job = assembly.find_conditions();
  const profile::Conditions conditions = overlap_conditions(config, job);
  std::string from;
  comm::agree_on_root(world, 0, [&] {
    std::tie(from, decision.plan) =
        first_that_fits(kept_choices(checkpoint, saved, config.output.dir), conditions, rows, decision.remarks);
  });
  world.broadcast(from, 0);
  world.broadcast(decision.plan, 0);
  if (!decision.plan.empty()) {
    std::string reason;
    const auto kept = profile::measurement_of_text(decision.plan, kOverlapKind, reason);
    decision.choice = {.from = "as kept in " + from,
                       .rows = rows_that_fit(kept.value(), kept->conditions, rows, reason).value()};
    return decision;
  }
  if (const std::string why = why_not_timed(assembly); !why.empty()) {
    decision.remarks.push_back(why);
    return decision;
  }
  if (!decision.remarks.empty()) decision.remarks.back() += "; measured anew";
  decision.choice = measure(assembly, job, saved);
  decision.plan = to_text(overlap_measurement(conditions, decision.choice.rows), kOverlapKind);
  world.broadcast(decision.plan, 0);
  return decision;
}

}  // namespace shard8::train

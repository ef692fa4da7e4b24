// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "deck/config.hpp"
#include "deck/load.hpp"

namespace shard8::app {

/// The stages of the checks before the first step, in the order in which a run makes them.
enum class Stage {
  deck,
  ranks,
  device,
  memory,
  job,
  output,
  output_lock,
  gold,
  data,
  initial_weights,
  checkpoint_dir,
  checkpoint_lock,
  start,
  overlap,
  set_up,
  restore,
  first_files,
  signal,
};
std::string_view name_of(Stage stage);

/// A reason why a run does not start.
struct Refusal {
  Stage stage;
  base::ExitCode code;
  /// Whether one process without ranks, devices or memory can find the reason: `shard8 check` says the same as `shard8
  /// run`.
  bool found_by_check;
  std::string_view what;  ///< what is wrong, for docs and tests
};

/// The register of all reasons for which a run ends before its first step. at_stage() marks an error whose stage and
/// code are not in it.
std::span<const Refusal> refusals();

/// Runs what belongs to a stage. Of the errors that `action` throws:
/// - one whose code is registered for the stage passes;
/// - an Error(failed) from a stage that is about one input gets the code that is registered for that input, since what
///   cannot be read there is the input's fault;
/// - any other one gets a line that says that it is not registered. Tests fail when they see that line.
/// An AgreedError stays one.
void at_stage(Stage stage, const std::function<void()>& action);

/// The words of the line that says that a reason is not registered.
inline constexpr std::string_view kNotRegistered = "this reason not to start is not registered";

// What one process can find out before a run. Each function leaves files and folders as they were.

/// Error(environment) unless the files that rank 0 of a run writes to output.dir can be written.
void require_output(const deck::Config& config);

/// Error(environment) unless train::checkpoint_folder(), if there is one, can be made and written to.
void require_checkpoint_dir(const std::string& folder);

/// All that one process can find out about the start of a run, in the order and with the words and codes of a run
/// (refusals()). Returns lines for the user: the data, the weights and where the run would start. Warnings go to
/// standard error.
std::string check_start(const deck::LoadResult& deck);

}  // namespace shard8::app

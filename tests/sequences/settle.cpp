// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/sequences/settle.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <cmath>

#include "io/digest.hpp"

namespace shard8::test {

namespace fs = std::filesystem;

namespace {

bool is_below(const std::string& path, const std::string& folder) { return path.starts_with(folder + "/"); }

/// Whether a path is FOLDER/NAME, with no folder in between.
bool is_in(const std::string& path, const std::string& folder) {
  return is_below(path, folder) && path.find('/', folder.size() + 1) == std::string::npos;
}

/// Whether a run of these folders may change the file.
bool is_its_own(const std::string& path, const Command& command) {
  const std::string folder = command.checkpoints();
  return is_in(path, command.output) || is_in(path, folder) || is_below(path, folder + "/step") ||
         path.starts_with(folder + "/step_");
}

bool is_replaced(const std::string& path, const Command& command) {
  return path.starts_with(command.output + "/replaced_") || path.starts_with(command.checkpoints() + "/replaced_");
}

}  // namespace

void Settle::broken(const std::string& what) const { throw Broken(what); }

const std::vector<double>& Settle::losses(const Mesh& mesh) {
  auto& found = losses_[mesh];
  if (found.empty()) found = place_.references.losses(place_.base, training().lineage, mesh);
  return found;
}

OneMesh Settle::mesh_of_leg() const {
  if (outcome_.first == 0) return command_.deck.mesh;
  return outcome_.point->mesh == OneMesh(command_.deck.mesh) ? outcome_.point->mesh : std::nullopt;
}

/// The steps behind which a leg up to `last` writes checkpoints.
std::vector<std::int64_t> Settle::writes(std::int64_t last) const {
  std::vector<std::int64_t> steps;
  for (std::int64_t step = outcome_.first + 1; step <= last; ++step)
    if (step % command_.deck.every == 0 || (step == last && last < command_.deck.steps)) steps.push_back(step);
  return steps;
}

std::set<std::string> Settle::after_run(const RunEnd& end) {
  if (end.how == RunEnd::How::by_itself) check_end(end);  // first: another code explains most else
  after_ = digests_below(place_.folder);
  output_ = look_at_output(place_.folder / command_.output);
  folder_ = look_at_folder(place_.folder / command_.checkpoints());
  check_others();
  std::set<std::string> left;
  const bool moved = check_move(end, left), ran = started(end);
  if (ran || moved) take_over(ran);
  if (!ran) return moved ? left : std::set<std::string>();
  const std::int64_t last = check_end(end);
  if (end.how == RunEnd::How::by_itself) check_said(end.output);
  check_checkpoints(end, last);
  check_lines(end, last);
  check_files(end);
  return left;
}

/// Finds out which training ran. False if a killed run ended before it began one.
bool Settle::started(const RunEnd& end) {
  index_ = outcome_.training;
  if (index_ < 0) {
    std::set<std::string> unknown;
    const auto note = [&](const std::string& id) {
      if (id.empty()) return;
      for (const Training& one : world_.trainings)
        if (one.id == id) return;
      unknown.insert(id);
    };
    if (output_.training.is_object()) note(output_.training.value("id", ""));
    for (const SeenLine& line : output_.lines) note(line.run);
    for (const auto& [step, one] : folder_.checkpoints) note(one.run);
    if (unknown.size() > 1) broken(fmt::format("one run made several ids: {}", fmt::join(unknown, ", ")));
    if (unknown.empty()) {
      // A child of its parent's last step has nothing to train and writes nothing.
      if (trains() && (end.how == RunEnd::How::by_itself || end.code == 0 || end.code == 75))
        broken("a new training must have a new id, and there is none");
      return false;
    }
    index_ = static_cast<int>(world_.trainings.size());
    world_.trainings.push_back({*unknown.begin(), outcome_.parent, outcome_.lineage});
  }
  // training.json is that of the new owner before anything is moved.
  if (outcome_.moves_output && end.how == RunEnd::How::killed && end.code != 0)
    return output_.training.is_object() && output_.training.value("id", "") == training().id;
  return true;
}

/// Forgets files that this killed run, or one before it, was to move and did not: the next start moves them.
void Settle::leave_out_unmoved() {
  const auto is_unmoved = [&](const std::string& path) {
    const auto found = before_.find(path);
    const auto now = after_.find(path);
    return found != before_.end() && now != after_.end() && found->second == now->second;
  };
  if (outcome_.moves_output || outcome_.finishes_move) {
    if (is_unmoved(command_.output + "/metrics.jsonl")) output_.lines.clear();
    std::erase_if(after_, [&](const auto& one) { return is_in(one.first, command_.output) && is_unmoved(one.first); });
  }
  if (!outcome_.moves_checkpoints && !outcome_.finishes_move) return;
  std::erase_if(folder_.checkpoints, [&](const auto& one) {
    const std::string folder = command_.checkpoints() + "/" + step_folder(one.first);
    return std::all_of(after_.begin(), after_.end(),
                       [&](const auto& file) { return !is_below(file.first, folder) || is_unmoved(file.first); });
  });
  const bool names_new = std::any_of(folder_.checkpoints.begin(), folder_.checkpoints.end(),
                                     [&](const auto& one) { return step_folder(one.first) == folder_.latest; });
  if (is_unmoved(command_.checkpoints() + "/latest") && !names_new) folder_.latest.clear();
}

/// The folders are those of this run now.
void Settle::take_over(bool ran) {
  leave_out_unmoved();
  Output& output = world_.outputs[command_.output];
  if (outcome_.moves_output) output = {};
  if (outcome_.moves_checkpoints) world_.folders[command_.checkpoints()] = {};
  if (!ran || !trains()) return;
  const auto legs = static_cast<std::int64_t>(
      output_.training.is_object() ? output_.training.value("legs", nlohmann::json::array()).size() : 0);
  if (legs == output.legs) return;  // a killed run that did not come so far
  // Legs in other folders count as one.
  const std::int64_t elsewhere = !output.owner && outcome_.first > training().begins() ? 1 : 0;
  if (legs != output.legs + elsewhere + 1)
    broken(fmt::format("{}/training.json has {} legs after {} here and {} elsewhere", command_.output, legs,
                       output.legs, elsewhere));
  output.legs = legs;
  output.restart = command_.restart;
  output.restarts.push_back(command_.restart);
  output.deck = command_.deck;
  output.finished = false;
  training().lineage = outcome_.lineage;  // another one only where the training began again with other data
  if (output.owner) return;
  output.owner = index_;
  output.origin = outcome_.point;
  if (output.origin && outcome_.moves_checkpoints && output.origin->folder == command_.checkpoints())
    output.origin->moved = true;
}

/// The files that were there lie in replaced_N, with the same content. What does not is `left` by a killed run. True if
/// files were moved.
bool Settle::check_move(const RunEnd& end, std::set<std::string>& left) const {
  bool any = false;
  std::set<std::string> moved;
  for (const auto& [path, digest] : after_)
    if (is_replaced(path, command_)) moved.insert(digest);
  for (const auto& [path, digest] : before_) {
    const bool of_output = outcome_.moves_output &&
                           (path == command_.output + "/metrics.jsonl" || path == command_.output + "/summary.json");
    const bool of_folder = outcome_.moves_checkpoints && path.starts_with(command_.checkpoints() + "/step_") &&
                           path.find(".tmp/") == std::string::npos && path.find(".old/") == std::string::npos;
    if (!of_output && !of_folder) continue;
    if (digest == io::digest128("")) continue;  // who was killed before its first line leaves nothing to move
    any = any || moved.contains(digest);
    if (moved.contains(digest)) continue;
    if (end.how != RunEnd::How::killed && end.code != 5)
      broken(fmt::format("{} was to be moved to replaced_N, and is not there", path));
    left.insert(digest);
  }
  return any;
}

/// Files that are not the run's own are as before.
void Settle::check_others() const {
  const bool moves = outcome_.moves_output || outcome_.moves_checkpoints || outcome_.finishes_move;
  for (const auto& [path, digest] : before_) {
    if (is_its_own(path, command_)) continue;
    const auto found = after_.find(path);
    if (found == after_.end()) broken(fmt::format("{} is gone, and is not the run's own", path));
    if (found->second != digest) broken(fmt::format("{} has changed, and is not the run's own", path));
  }
  for (const auto& [path, digest] : after_)
    if (!before_.contains(path) && !is_its_own(path, command_) && !(moves && is_replaced(path, command_)))
      broken(fmt::format("{} is new, and is not the run's own", path));
}

/// Whether the losses of all steps pass what the command verifies.
bool Settle::verifies() const {
  return (command_.final_loss_max == 0 || command_.final_loss_max > 1) && !command_.gold_is_wrong;
}

/// Checks the exit code and returns the number of steps that are done.
std::int64_t Settle::check_end(const RunEnd& end) const {
  const std::int64_t steps = command_.deck.steps;
  const bool stops = trains() && command_.stop_after > 0 && outcome_.first + command_.stop_after < steps;
  if (end.how == RunEnd::How::killed && end.code != 0) return stops ? outcome_.first + command_.stop_after : steps;
  const int finished = verifies() ? 0 : 6;
  if (end.how == RunEnd::How::signalled && end.code != finished) {
    // The signal came before the program handled it; launchers give its number, or 128 more. Rarely MPICH's own handler
    // of SIGUSR1 meets it in MPI_Init, and fails.
    const bool in_init = end.code % 128 == SIGSEGV && end.output.find("shard8 ") == std::string::npos;
    const bool died = end.code % 128 == SIGTERM || end.code % 128 == SIGUSR1 || in_init;
    if (end.code != 75 && end.code != 5 && !died)
      broken(fmt::format("exit code {} after a signal, not 75, {} or 5", end.code, finished));
    if (end.code != 75) return outcome_.first;
    const std::int64_t last = output_.lines.empty() ? 0 : output_.lines.back().step + 1;
    if (last <= outcome_.first || last >= steps) broken(fmt::format("exit code 75 after {} of {} steps", last, steps));
    return last;
  }
  const int wanted = stops ? 75 : finished;
  if (end.code != wanted) broken(fmt::format("exit code {}, not {}", end.code, wanted));
  return stops ? outcome_.first + command_.stop_after : std::max(steps, outcome_.first);
}

/// What the user must be told.
void Settle::check_said(const std::string& output) const {
  auto says = outcome_.says;
  says.push_back(training().id);
  if (outcome_.moves_output || outcome_.moves_checkpoints) says.emplace_back("/replaced_");
  const auto& lines = world_.outputs[command_.output].lines;
  std::int64_t kept = 0, cut = 0, missing = -1;
  for (const auto& [step, mesh] : lines) ++(step < outcome_.first ? kept : cut);
  for (std::int64_t step = outcome_.first; step-- > training().begins();)
    if (!lines.contains(step)) missing = step;
  if (trains() && missing >= 0) says.push_back(fmt::format("no line that can be read, the first is step {}", missing));
  if (trains() && outcome_.first == training().begins() && cut > 0)
    says.push_back(fmt::format("{} line{} of this training", cut, cut == 1 ? "" : "s"));
  for (const std::string& text : says)
    if (output.find(text) == std::string::npos) broken(fmt::format("the run does not say '{}'", text));
}

/// The summaries of earlier legs are those that were there.
void Settle::check_earlier_summaries() const {
  const std::string newest = command_.output + "/summary.json", earlier = command_.output + "/summary.leg_";
  std::set<std::string> kept;
  for (const auto& [path, digest] : after_)
    if (path.starts_with(earlier) || path == newest) kept.insert(digest);
  for (const auto& [path, digest] : before_) {
    if (path.starts_with(earlier) && (!after_.contains(path) || after_.at(path) != digest))
      broken(path + " has changed, or is gone");
    if (path == newest && !kept.contains(digest)) broken(newest + " of an earlier leg is gone");
  }
}

void Settle::check_files(const RunEnd& end) {
  Output& output = world_.outputs[command_.output];
  if (!outcome_.moves_output && !outcome_.finishes_move) check_earlier_summaries();
  std::int64_t summaries = 0;
  for (const auto& [path, digest] : after_)
    if (path == command_.output + "/summary.json" || path.starts_with(command_.output + "/summary.leg_")) ++summaries;
  const bool ended = end.how == RunEnd::How::by_itself || end.code == 0 || end.code == 75;
  const std::int64_t more = trains() && ended ? 1 : 0;
  if (summaries < output.summaries + more || summaries > output.summaries + (ended ? more : 1))
    broken(fmt::format("{} has {} summaries after {} before", command_.output, summaries, output.summaries));
  output.summaries = summaries;
  if (!ended) return;
  for (const std::string& folder : {command_.output, command_.checkpoints()})
    if (fs::exists(place_.folder / folder / "lock")) broken(folder + "/lock is there after the run's end");
  if (trains()) check_summary();
}

/// training.json and the newest leg's summary.json say whose they are, and what all legs have done.
void Settle::check_summary() const {
  const Output& output = world_.outputs.at(command_.output);
  const auto require = [&](const char* what, const nlohmann::json& got, const nlohmann::json& wanted) {
    if (got != wanted) broken(fmt::format("{}: {} is {}, not {}", command_.output, what, got.dump(), wanted.dump()));
  };
  nlohmann::json parent, parent_step;
  if (const auto& p = training().parent) {
    parent = world_.trainings[static_cast<std::size_t>(p->training)].id;
    parent_step = p->step;
  }
  require("the id in training.json", output_.training.value("id", ""), training().id);
  if (!output_.summary.is_object()) broken(command_.output + "/summary.json is not there");
  const auto of = output_.summary.value("training", nlohmann::json::object());
  require("training.id in summary.json", of.value("id", nlohmann::json()), training().id);
  require("training.parent in summary.json", of.value("parent", nlohmann::json()), parent);
  require("training.parent_step in summary.json", of.value("parent_step", nlohmann::json()), parent_step);
  require("training.leg in summary.json", of.value("leg", nlohmann::json()), output.legs);
  const auto totals = output_.summary.value("totals", nlohmann::json::object());
  const auto lines = static_cast<std::int64_t>(output_.lines.size());
  require("totals.legs in summary.json", totals.value("legs", nlohmann::json()), output.legs);
  require("totals.first_step in summary.json", totals.value("first_step", nlohmann::json()), training().begins());
  require("totals.steps in summary.json", totals.value("steps", nlohmann::json()), lines);
  require("totals.tokens in summary.json", totals.value("tokens", nlohmann::json()), lines * kTokensOfStep);
}

}  // namespace shard8::test

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/start.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <istream>
#include <system_error>

#include "base/error.hpp"
#include "base/plain_file.hpp"
#include "base/text.hpp"
#include "checkpoint/directory.hpp"
#include "io/file.hpp"
#include "profile/metrics.hpp"
#include "profile/report_files.hpp"

namespace shard8::train {

namespace {

namespace fs = std::filesystem;
using base::ExitCode;
using checkpoint::Directory;
using checkpoint::Manifest;
using Say = std::function<void(const std::string&)>;

void require_same_training(const Manifest& manifest, const std::string& folder, const StartQuestion& question) {
  auto changes = deck_changes(manifest.deck, question.deck);
  const auto inputs = input_changes(manifest, question.inputs);
  changes.insert(changes.end(), inputs.begin(), inputs.end());
  refuse_changes(changes, question.config.checkpoint.allow_changes, folder);
  const auto decay = saved_decay(manifest.deck, question.deck);
  if (decay && question.config.optimizer.warmup >= *decay)
    base::fail(ExitCode::checkpoint,
               "optimizer.warmup = {} is not less than {}, the decay_steps of checkpoint {}: set "
               "optimizer.decay_steps",
               question.config.optimizer.warmup, *decay, folder);
}

class Finder {
 public:
  Finder(const StartQuestion& question, const Say& say)
      : question_(question),
        say_(say),
        restart_(question.config.checkpoint.restart),
        record_(read_training_file(question.config.output.dir)),
        own_(question.folder) {
    if (!question.folder.empty()) scan_ = own_.scan();
  }

  Start find() {
    const bool named = question_.config.checkpoint.restarts_from_path();
    const bool none = restart_ == deck::CheckpointConfig::kNoRestart;
    if (!named && !none) {
      Start start = go_on();
      // A run that was cut off while it moved another training's files aside goes on moving them.
      start.is_later = is_requeued() && record_->replacing == 0;
      return start;
    }
    if (was_cut_off()) {
      // While another training's files are moved aside, what is left of checkpoints is that one's.
      if (record_->replacing == 0 && scan_.usable.empty()) {
        tell_of(own_, scan_);
        require_no_remains();
      }
      return begin_again();
    }
    if (is_later_leg()) {
      Start start = go_on();
      start.is_later = true;
      return start;
    }
    return named ? start_from_path() : anew();
  }

 private:
  /// Whether the keys that may not change at a restart are those of an earlier leg.
  bool same_training(const std::vector<checkpoint::ManifestKey>& deck) const {
    return !needs_permission(deck_changes(deck, question_.deck));
  }

  bool has_own_checkpoint(const std::string& id) const {
    return std::any_of(scan_.usable.begin(), scan_.usable.end(), [&](const auto& one) { return one.run == id; });
  }

  /// A training in output.dir that was begun in the same way, was cut off before its first checkpoint, and is to begin
  /// once more.
  bool was_cut_off() const {
    if (!record_ || record_->finished || !same_training(record_->deck) || has_own_checkpoint(record_->identity.id))
      return false;
    if (last_restart() != restart_ && !is_requeued()) return false;
    if (!same_content(record_->inputs.data, question_.inputs.data)) return false;
    // From step 0 on the weights are those of this deck, and the learning rate decays over its steps.
    const bool anew = record_->origin.empty();
    if (anew && !same_content(record_->inputs.weights, question_.inputs.weights)) return false;
    if (anew && saved_decay(record_->deck, question_.deck)) return false;
    return std::none_of(record_->legs.begin(), record_->legs.end(), [](const Leg& leg) { return leg.checkpoint; });
  }

  bool is_requeued() const { return question_.requeued && record_ && record_->slurm_job == question_.slurm_job; }

  bool is_later_leg() const {
    if (is_requeued()) return true;
    if (restart_ == deck::CheckpointConfig::kNoRestart || scan_.usable.empty()) return false;
    const auto& newest = scan_.usable.front();
    if (!same_training(own_.open(newest.step).deck)) return false;
    if (record_ && record_->identity.id == newest.run && last_restart() == restart_) return true;
    const auto named = named_manifest();
    return named && newest.parent == checkpoint::Parent{named->run, named->step};
  }

  /// checkpoint.restart of the last leg in output.dir; empty if there is none.
  std::string last_restart() const { return record_ && !record_->legs.empty() ? record_->legs.back().restart : ""; }

  /// The manifest that checkpoint.restart names; none if it cannot be read.
  std::optional<Manifest> named_manifest() const {
    try {
      return checkpoint::open_checkpoint(restart_, [](const std::string&) {}).manifest;
    } catch (const base::Error&) {
      return std::nullopt;
    }
  }

  void tell_of(const Directory& directory, const Directory::Scan& scan) const {
    for (const auto& bad : scan.unusable)
      say_(fmt::format("checkpoint {} cannot be used: {}", directory.folder_of(bad.step), bad.why));
    if (scan.usable.empty()) return;
    const auto latest = directory.latest();
    const auto is_there = [&](std::int64_t step) {
      return std::any_of(scan.usable.begin(), scan.usable.end(), [&](const auto& one) { return one.step == step; });
    };
    if (latest && !is_there(*latest))
      say_(fmt::format("'{}/latest' names {}, which cannot be used or is gone: going back to {}", directory.path(),
                       checkpoint::step_name(*latest), checkpoint::step_name(scan.usable.front().step)));
  }

  /// checkpoint.dir has no usable checkpoint: nothing in it may look like one.
  void require_no_remains() const {
    if (question_.folder.empty()) return;
    const auto remains = own_.remains();
    if (scan_.unusable.empty() && remains.empty()) return;
    base::fail(ExitCode::checkpoint,
               "there is no checkpoint in {} that can be used{}{}: name another in checkpoint.restart, or set it to "
               "none and output.dir and checkpoint.dir to other folders to start anew",
               own_.path(), scan_.unusable.empty() ? "" : " (see the warnings above)",
               remains.empty() ? "" : fmt::format(", and it holds what is left of some: {}", listed(remains)));
  }

  Start go_on() {
    // A start that was killed while it moved another training's files aside: some of them may still be here.
    if (record_ && record_->replacing > 0 && was_cut_off()) return begin_again();
    tell_of(own_, scan_);
    if (!scan_.usable.empty()) return from(own_, scan_, false);
    require_no_remains();
    if (was_cut_off()) return begin_again();
    if (question_.config.checkpoint.allow_changes)
      say_(
          fmt::format("checkpoint.allow_changes changes nothing: there is no checkpoint{} to go on from, and a new "
                      "training begins; checkpoint.restart names one in another folder",
                      question_.folder.empty() ? "" : fmt::format(" in {}", own_.path())));
    return anew();
  }

  static std::string listed(const std::vector<std::string>& names) {
    constexpr std::size_t kMost = 5;
    std::vector<std::string> shown;
    for (const std::string& name : names)
      if (shown.size() < kMost) shown.push_back(base::quotable(name));
    return fmt::format("{}{}", fmt::join(shown, ", "), names.size() > kMost ? ", ..." : "");
  }

  Start anew() const {
    Start start;
    start.identity.id = draw_id();
    return start;
  }

  Start begin_again() const {
    Start start;
    start.identity = record_->identity;
    start.begins_again = true;
    if (record_->origin.empty()) return start;
    // Before it is moved aside, the checkpoint lies in checkpoint.dir.
    const fs::path moved(record_->origin), unmoved = fs::path(question_.folder) / moved.filename();
    const bool is_moved = record_->replacing == 0 || base::kind_of_file(moved).is_there();
    start.points.push_back(is_moved ? moved.string() : unmoved.string());
    start.required = true;
    require_deck(start.points.front());
    return start;
  }

  Start start_from_path() {
    if (!checkpoint::is_checkpoint(restart_)) {
      const Directory directory = checkpoint::directory_at(restart_);
      const auto scan = directory.scan();
      tell_of(directory, scan);
      if (scan.usable.empty())
        base::fail(ExitCode::checkpoint,
                   "there is no checkpoint in {} that can be used (see the warnings above): name another in "
                   "checkpoint.restart, or set it to none to start anew",
                   directory.path());
      return from(directory, scan, true);
    }
    const Manifest named = require_deck(restart_);
    Start start = decided(named, is_older(named));
    start.points.push_back(restart_);
    start.required = true;
    return start;
  }

  /// A start from the newest checkpoint of a folder, with those of the same training to fall back to.
  Start from(const Directory& directory, const Directory::Scan& scan, bool required) const {
    const std::string& owner = scan.usable.front().run;
    const Manifest newest = require_deck(directory.folder_of(scan.usable.front().step));
    Start start = decided(newest, false);
    for (const auto& one : scan.usable)
      if (one.run == owner) start.points.push_back(directory.folder_of(one.step));
    start.required = required;
    return start;
  }

  Start decided(const Manifest& point, bool older) const {
    auto changes = deck_changes(point.deck, question_.deck);
    const auto inputs = input_changes(point, question_.inputs);
    changes.insert(changes.end(), inputs.begin(), inputs.end());
    Start start;
    start.is_child = older || needs_permission(changes);
    if (start.is_child)
      start.identity = {draw_id(), checkpoint::Parent{point.run, point.step}};
    else
      start.identity = {point.run, point.parent};
    return start;
  }

  /// Whether the training has a usable checkpoint that was written after the one that the command names: in the same
  /// folder, or in checkpoint.dir.
  bool is_older(const Manifest& named) const {
    std::error_code error;
    const fs::path real = fs::canonical(restart_, error);  // not as it is spelled: behind links, without "."
    if (error)
      base::fail(ExitCode::checkpoint,
                 "checkpoint.restart: cannot find the folder of '{}': {}; name it by another path", restart_,
                 error.message());
    const Directory beside(real.parent_path().string());
    const auto scan = beside.scan();
    const auto newer = [&](const auto& one) {
      return one.run == named.run && (one.serial > named.serial || one.step > named.step);
    };
    return std::any_of(scan.usable.begin(), scan.usable.end(), newer) ||
           std::any_of(scan_.usable.begin(), scan_.usable.end(),
                       [&](const auto& one) { return one.run == named.run && one.step > named.step; });
  }

  /// The manifest of a checkpoint, after its deck and inputs were compared with this run's.
  Manifest require_deck(const std::string& folder) const {
    const Manifest manifest = checkpoint::read_manifest(folder);
    require_same_training(manifest, folder, question_);
    return manifest;
  }

 private:
  const StartQuestion& question_;
  const Say& say_;
  const std::string& restart_;
  std::optional<TrainingFile> record_;
  Directory own_;
  Directory::Scan scan_;
};

}  // namespace

Start find_start(const StartQuestion& question, const Say& say) { return Finder(question, say).find(); }

namespace {

/// The trainings whose lines a metrics.jsonl has, but for `id`; `known` says that the run goes on with `id`, whose
/// lines early versions did not name.
std::string others_in_metrics(const fs::path& path, const std::string& id, bool known) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {};
  profile::MetricsOwners owners;
  io::read_stream(path.string(), [&](std::istream& in) { owners = profile::owners_of_metrics(in); });
  std::string found;
  for (const auto& [run, steps] : owners.trainings)
    if (run != id)
      found += fmt::format("{}{} has steps {} to {} of training {}", found.empty() ? "" : ", ",
                           path.filename().string(), steps.first, steps.last, base::quotable(run));
  if (owners.has_unnamed && !known)
    found +=
        fmt::format("{}{} has steps of a training without a name", found.empty() ? "" : ", ", path.filename().string());
  return found;
}

/// The training other than `id` whose leg wrote the summary.
std::string other_in_summary(const fs::path& path, const std::string& id) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return {};
  const std::string text = io::text_of(path.string());
  const std::string whose = profile::training_of_summary(text);
  if (whose.empty() || whose == id || !profile::skeleton_of_summary(text).empty()) return {};
  return fmt::format("{} is of training {}", path.filename().string(), base::quotable(whose));
}

std::string others_in_output(const deck::OutputConfig& output, const Start& start, bool known) {
  const std::string& id = start.identity.id;
  const auto record = read_training_file(output.dir);
  std::string found = others_in_metrics(fs::path(output.dir) / output.metrics, id, known);
  if (found.empty()) found = other_in_summary(fs::path(output.dir) / output.summary, id);
  if (!found.empty() || !record || record->identity.id == id) return found;
  return fmt::format("{} is that of {}", TrainingFile::kName, text_of(record->identity));
}

std::string others_in_checkpoints(const Directory& directory, const std::string& id, bool known) {
  std::string found;
  for (const std::int64_t step : directory.steps()) {
    std::string whose;
    try {
      const std::string run = checkpoint::read_manifest(directory.folder_of(step)).run;  // usable or not
      if (run != id) whose = fmt::format("training {}", base::quotable(run));
    } catch (const base::Error&) {
      if (!known) whose = "an unknown training";
    }
    if (!whose.empty())
      found += fmt::format("{}{} of {}", found.empty() ? "" : ", ", checkpoint::step_name(step), whose);
  }
  if (known || !found.empty()) return found;
  const auto remains = directory.remains();
  return remains.empty() ? std::string() : fmt::format("what is left of some: {}", remains.front());
}

}  // namespace

Others find_others(const StartQuestion& question, const Start& start) {
  const bool known = start.goes_on();
  Others others;
  others.in_output = others_in_output(question.config.output, start, known);
  const std::string& folder = question.folder;
  if (!folder.empty()) others.in_checkpoints = others_in_checkpoints(Directory(folder), start.identity.id, known);
  return others;
}

namespace {

/// Whether model.init_file leads to checkpoints that lie directly in `folder`: to one of them, or to whichever is the
/// newest.
bool has_initial_weights(const std::string& folder, const std::string& init_file) {
  if (folder.empty() || init_file.empty()) return false;
  std::error_code ignored;
  if (!fs::exists(init_file, ignored)) return false;
  if (fs::is_directory(init_file, ignored) && !checkpoint::is_checkpoint(init_file) &&
      checkpoint::names_checkpoints(init_file) &&
      fs::equivalent(checkpoint::directory_at(init_file).path(), folder, ignored))
    return true;
  const fs::path inside = fs::canonical(init_file, ignored).lexically_relative(fs::canonical(folder, ignored));
  return !inside.empty() && checkpoint::step_of(inside.begin()->string()).has_value();
}

}  // namespace

void refuse_others(const StartQuestion& question, const Start& start, const Others& others) {
  const deck::Config& config = question.config;
  if (!others.any()) return;
  if (config.output.replace && !start.is_later) {
    if (others.in_checkpoints.empty() || !has_initial_weights(question.folder, config.model.init_file)) return;
    base::fail(
        ExitCode::deck,
        "model.init_file '{}' names a checkpoint in '{}', which output.replace would move aside, so that a later "
        "start of this run would not find it: set output.dir and checkpoint.dir to other folders",
        config.model.init_file, question.folder);
  }
  std::string what, keys;
  const auto add = [&](const char* key, const std::string& folder, const std::string& holds) {
    if (holds.empty()) return;
    what +=
        fmt::format("{}{} '{}' holds other files than its own ({})", what.empty() ? "" : ", and ", key, folder, holds);
    keys += fmt::format("{}{}", keys.empty() ? "" : " and ", key);
  };
  add("output.dir", config.output.dir, others.in_output);
  add("checkpoint.dir", question.folder, others.in_checkpoints);
  const bool both = !others.in_output.empty() && !others.in_checkpoints.empty();
  base::fail(ExitCode::deck, "this run is {}, and {}: set {} to {}{}{}",
             start.identity.parent || !start.points.empty() ? text_of(start.identity) : "a new training", what, keys,
             both ? "other folders" : "another folder",
             config.output.replace ? "; output.replace acts when a job starts first, and this is a later start"
                                   : ", or output.replace to true, which moves what is there aside",
             start.is_child ? "" : "; to go on with a training, set checkpoint.restart to its last checkpoint");
}

std::string text_of(const Identity& identity) {
  if (!identity.parent) return fmt::format("training {}", identity.id);
  return fmt::format("training {}, a child of {} at step {}", identity.id, base::quotable(identity.parent->run),
                     identity.parent->step);
}

}  // namespace shard8::train

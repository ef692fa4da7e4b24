// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/run_output.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <istream>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "app/commands.hpp"
#include "app/run_measures.hpp"
#include "app/run_report.hpp"
#include "base/plain_file.hpp"
#include "base/text.hpp"
#include "base/utc.hpp"
#include "checkpoint/directory.hpp"
#include "comm/agree.hpp"
#include "deck/layout.hpp"
#include "io/file.hpp"
#include "profile/output_file.hpp"
#include "tensor/runtime.hpp"
#include "train/training_file.hpp"

namespace shard8::app {

namespace fs = std::filesystem;

using checkpoint::Directory;

/// The files that rank 0 writes at the end.
std::vector<std::string> RunOutput::reports() const {
  std::vector<std::string> names = {config_.timing, config_.summary, deck::OutputConfig::kRanks};
  if (!config_.timing_ranks.empty()) names.push_back(config_.timing_ranks);
  return names;
}

void RunOutput::check_trace() const {
  if (config_.trace.empty()) return;
  const fs::path trace = trace_file(config_, world_.rank());
  std::optional<profile::FoldersForCheck> folders;  // no rank removes the folder while others write to it
  comm::agree(world_, [&] { folders.emplace(trace); });
  comm::agree(world_, [&] { profile::require_writable(trace); });
}

void RunOutput::hold(const std::function<void(const std::string&)>& say) {
  say_ = say;
  comm::agree_on_root(world_, 0, [&] {
    made_.emplace(config_.dir);
    checkpoint::LockOptions options;
    options.key = "output.dir";
    options.what = "files";
    options.say = say;
    held_ = train::make_and_hold(config_.dir, train::draw_id(), options, [&] {
      if (const std::error_code error = base::make_folders(config_.dir))
        base::fail(base::ExitCode::environment,
                   "cannot make folder '{}': {}; set output.dir to a folder that can be written to and has room",
                   config_.dir, error.message());
    });
  });
}

bool RunOutput::is_also(const std::string& checkpoint_dir) const {
  std::string same;
  comm::agree_on_root(world_, 0, [&] {
    std::error_code ignored;
    if (!checkpoint_dir.empty() && fs::equivalent(checkpoint_dir, config_.dir, ignored)) same = "1";
  });
  world_.broadcast(same, 0);
  return !same.empty();
}

namespace {

/// "summary.json" to "summary.skeleton_2.json".
std::string name_of_skeleton(const std::string& name, std::int64_t number) {
  const fs::path path(name);
  return fmt::format("{}.skeleton_{}{}", path.stem().string(), number, path.extension().string());
}

/// Whether a name is that of a report, or of a report of an earlier leg.
bool is_report(const std::string& name, const std::string& report) {
  return name == report || profile::leg_of_name(name, report).has_value();
}

/// The names that a training which is replaced may have used in output.dir: those of this run's deck, and those of its
/// own.
struct OtherNames {
  std::set<std::string> reports, metrics, traces;

  OtherNames(const deck::OutputConfig& config, const std::optional<train::TrainingFile>& other) {
    for (const deck::WrittenFile& file : deck::written_files(config)) add(file.key, file.name);
    reports.insert(deck::OutputConfig::kRanks);
    if (!other) return;
    for (const checkpoint::ManifestKey& key : other->deck) add(key.key, key.value);
  }

  /// Whether a file is a report or a trace.
  bool has(const std::string& file) const {
    return std::any_of(reports.begin(), reports.end(), [&](const auto& name) { return is_report(file, name); }) ||
           std::any_of(traces.begin(), traces.end(),
                       [&](const auto& name) { return base::rank_of_file_name(file, name).has_value(); });
  }

 private:
  void add(std::string_view key, const std::string& name) {
    // A deck's names are checked, but nobody checked those of a file of another training.
    if (!deck::is_file_name(name) || deck::is_reserved(name)) return;
    if (key == "output.metrics") metrics.insert(name);
    if (key == "output.trace") traces.insert(name);
    if (key == "output.summary" || key == "output.timing" || key == "output.timing_ranks") reports.insert(name);
  }
};

/// The first folder replaced_N that is in neither of two folders.
std::int64_t free_number(const fs::path& one, const fs::path& other) {
  for (std::int64_t n = 1;; ++n) {
    const std::string name = fmt::format("replaced_{}", n);
    std::error_code ignored;
    const auto is_free = [&](const fs::path& folder) {
      return folder.empty() || fs::symlink_status(folder / name, ignored).type() == fs::file_type::not_found;
    };
    if (is_free(one) && is_free(other)) return n;
  }
}

void move_file(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_directories(to.parent_path(), error);
  if (!error) fs::rename(from, to, error);
  if (error)
    base::fail(base::ExitCode::environment,
               "cannot move '{}' to '{}': {}; set output.dir to a folder that can be written to and has room",
               from.string(), to.string(), error.message());
}

profile::MetricsOwners owners_of(const fs::path& file) {
  profile::MetricsOwners owners;
  io::read_stream(file.string(), [&](std::istream& in) { owners = profile::owners_of_metrics(in); });
  return owners;
}

/// What stays of a metrics.jsonl: see profile::metrics_before. Whatever the file's length, one line is in memory.
profile::KeptMetrics kept_of(const fs::path& file, std::int64_t first, std::string_view id, std::int64_t begin,
                             const std::function<void(const profile::RecordedStep&)>& each, const io::Sink& keep = {},
                             const std::function<void(const profile::RecordedStep&)>& lost = {}) {
  profile::KeptMetrics kept;
  io::read_stream(file.string(),
                  [&](std::istream& in) { kept = profile::metrics_before(in, first, id, begin, each, keep, lost); });
  return kept;
}

/// Cuts the file to the lines that stay.
void cut(const fs::path& file, std::int64_t first, std::string_view id) {
  std::error_code error;
  const fs::path itself = fs::canonical(file, error);  // behind a link
  if (error)
    base::fail(base::ExitCode::environment, "cannot find '{}': {}; set output.dir to a folder that can be written to",
               file.string(), error.message());
  io::write_durably(itself.string(), [&](const io::Sink& sink) { kept_of(itself, first, id, 0, {}, sink); });
}

constexpr std::int64_t kAllSteps = std::numeric_limits<std::int64_t>::max();

/// metrics.jsonl without the lines of a training goes to `to`, and its own lines stay.
void move_metrics(const fs::path& from, const fs::path& to, std::string_view id) {
  if (!owners_of(from).trainings.contains(id)) return move_file(from, to);
  io::write_durably(to.string(), [&](const io::Sink& sink) {
    io::read_stream(from.string(), [&](std::istream& in) {
      std::array<char, 65536> piece;
      while (in.read(piece.data(), piece.size()) || in.gcount() > 0)
        sink({piece.data(), static_cast<std::size_t>(in.gcount())});
    });
  });
  cut(from, kAllSteps, id);
}

}  // namespace

/// Whether the file is one that this training reads.
bool RunOutput::is_input(const fs::path& file) const {
  constexpr std::string_view kInputs[] = {"data.path", "data.validation_path", "verify.gold", "model.init_file"};
  std::error_code ignored;
  return std::any_of(training_.deck.begin(), training_.deck.end(), [&](const checkpoint::ManifestKey& key) {
    return std::find(std::begin(kInputs), std::end(kInputs), key.key) != std::end(kInputs) && !key.value.empty() &&
           fs::equivalent(file, key.value.substr(0, key.value.rfind(":/")), ignored);
  });
}

bool RunOutput::is_summary_of_other(const std::string& file) const {
  const std::string whose = profile::training_of_summary(io::text_of(path(file).string()));
  return !whose.empty() && whose != training_.identity.id;
}

/// The record of this run's training is there before anything is moved, so that a start after a kill goes on moving.
void RunOutput::replace_others(const std::string& checkpoint_dir, bool goes_on, Told& told) {
  const std::string& id = training_.identity.id;
  const auto there = train::read_training_file(config_.dir);
  const bool resumes = there && there->identity.id == id && there->replacing > 0;
  const bool own_output = there && there->identity.id == id && !resumes;
  const std::int64_t number = resumes ? there->replacing : free_number(config_.dir, checkpoint_dir);
  const std::string name = fmt::format("replaced_{}", number);
  const fs::path aside = path(name);
  training_.replacing = number;
  // The checkpoint with which the training began may be among those that are moved.
  std::error_code ignored, unknown;
  const fs::path real = fs::canonical(training_.origin, unknown);  // a link to it would lead nowhere
  const fs::path origin = unknown ? fs::path(training_.origin) : real;
  const bool moves_origin =
      !checkpoint_dir.empty() && !origin.empty() && fs::equivalent(origin.parent_path(), checkpoint_dir, ignored);
  if (moves_origin) training_.origin = (fs::path(checkpoint_dir) / name / origin.filename()).string();
  std::vector<std::string> moved;
  if (there && there->identity.id != id) {
    fs::create_directories(aside, ignored);
    io::write_durably((aside / train::TrainingFile::kName).string(), train::to_text(*there));
    moved.emplace_back(train::TrainingFile::kName);
  }
  train::write_training_file(config_.dir, training_);
  const OtherNames others(config_, resumes ? train::read_training_file(aside.string()) : there);
  std::error_code unlisted;
  const auto names = base::names_in(config_.dir, unlisted);
  if (unlisted)
    base::fail(base::ExitCode::environment, "cannot list '{}': {}; set output.dir to a folder that can be read",
               config_.dir, unlisted.message());
  for (const std::string& file : names) {
    const bool reported = own_output ? is_report(file, config_.summary) && is_summary_of_other(file) : others.has(file);
    if (!reported) continue;
    if (is_input(path(file))) {
      told.lines.push_back(fmt::format("kept       {}, which this run reads", path(file).string()));
      continue;
    }
    move_file(path(file), aside / file);
    moved.push_back(file);
  }
  for (const std::string& metrics : others.metrics) {
    if (!fs::is_regular_file(path(metrics), ignored) || is_input(path(metrics))) continue;
    const auto owners = owners_of(path(metrics));
    const bool own = owners.trainings.contains(id);
    // Lines that cannot be read are nobody's: they go with the rest, unless there are lines of this training.
    const bool has_others = owners.has_unnamed || owners.trainings.size() > (own ? 1U : 0U) ||
                            (!own && fs::file_size(path(metrics), ignored) > 0);
    if (!has_others) continue;
    fs::create_directories(aside, ignored);
    move_metrics(path(metrics), aside / metrics, id);
    moved.push_back(metrics);
  }
  if (!moved.empty()) {
    constexpr std::size_t kShown = 8;  // chosen: a line that is read; there may be a trace for each rank
    const std::size_t rest = moved.size() - std::min(moved.size(), kShown);
    moved.resize(moved.size() - rest);
    told.lines.push_back(fmt::format("replaced   {}{} of {} moved to {}", fmt::join(moved, ", "),
                                     rest > 0 ? fmt::format(" and {} more files", rest) : "", config_.dir,
                                     aside.string()));
  }
  if (!checkpoint_dir.empty()) {
    const std::string to = (fs::path(checkpoint_dir) / name).string();
    const auto steps = Directory(checkpoint_dir).move_aside(to, [&](std::string_view run) {
      return run.empty() ? !goes_on : run != id;
    });
    if (!steps.empty())
      told.lines.push_back(fmt::format("replaced   {} of {} moved to {}", fmt::join(steps, ", "), checkpoint_dir, to));
  }
  training_.replacing = 0;
}

/// What the last leg reported stays under a name with its number.
void RunOutput::keep_reports(Told& told) {
  std::error_code none;
  if (fs::is_regular_file(path(config_.summary), none) &&
      !profile::skeleton_of_summary(io::text_of(path(config_.summary).string())).empty())
    return keep_skeleton(told);
  const auto last = static_cast<std::int64_t>(training_.legs.size()) - 1;
  for (const std::string& name : reports()) {
    std::error_code ignored;
    if (!fs::is_regular_file(path(name), ignored)) continue;
    std::int64_t leg = std::max<std::int64_t>(last, 1);
    if (name == config_.summary) leg = profile::leg_of_summary(io::text_of(path(name).string())).value_or(leg);
    while (fs::exists(path(profile::name_of_leg(name, leg)), ignored)) ++leg;
    move_file(path(name), path(profile::name_of_leg(name, leg)));
  }
}

/// What a skeleton run reported is of no leg.
void RunOutput::keep_skeleton(Told& told) {
  std::int64_t number = 1;
  std::error_code ignored;
  const auto all = reports();
  const auto taken = [&](const std::string& name) { return fs::exists(path(name_of_skeleton(name, number)), ignored); };
  while (std::any_of(all.begin(), all.end(), taken)) ++number;
  std::vector<std::string> kept;
  for (const std::string& name : all) {
    if (!fs::is_regular_file(path(name), ignored)) continue;
    kept.push_back(name_of_skeleton(name, number));
    move_file(path(name), path(kept.back()));
  }
  told.lines.push_back(
      fmt::format("kept       the reports of a skeleton run in {}, as {}", config_.dir, fmt::join(kept, ", ")));
  if (const fs::path trace = config_.trace.empty() ? "" : trace_file(config_, 0); fs::exists(trace, ignored))
    told.lines.push_back(fmt::format("replaced   the skeleton run's trace {}", trace.string()));
}

void RunOutput::cut_back(const LegStart& start, Told& told) {
  const fs::path file = path(config_.metrics);
  train::Leg& leg = training_.legs.back();
  const auto each = [&](const profile::RecordedStep& step) {
    totals_.add(step);
    if (start.recorded) start.recorded(step);
  };
  const std::string& id = training_.identity.id;
  const std::int64_t begin = training_.identity.first_step();
  std::error_code ignored;
  const bool is_there = fs::is_regular_file(file, ignored);
  // Each leg cuts the lines back to its own first step, so the last leg that began at or before a step has written it.
  for (std::size_t i = 0; i + 1 < training_.legs.size(); ++i)
    training_.legs[i].lost_s = training_.legs[i].lost_s.value_or(0);
  const auto lost = [&](const profile::RecordedStep& step) {
    for (auto at = training_.legs.rbegin() + 1; at != training_.legs.rend(); ++at) {
      if (at->first_step > step.step) continue;
      ++at->lost;
      *at->lost_s += step.step_s;
      break;
    }
  };
  const auto kept = is_there ? kept_of(file, start.first_step, id, begin, each, {}, lost)
                             : profile::metrics_before("", start.first_step, id, begin);
  if (!kept.whole) cut(file, start.first_step, id);
  leg.trained_again = kept.cut_back;
  if (const std::string said = kept.warning(); !said.empty())
    told.warnings.push_back(fmt::format("{}: {}", file.string(), said));
  if (kept.cut_back > 0 && start.first_step == training_.identity.first_step())
    told.warnings.push_back(
        fmt::format("{}: {} of this training, which has no checkpoint, will be written anew: the training begins again",
                    file.string(), base::count(kept.cut_back, "line", "lines")));
}

/// A leg that was killed could not say when: it was alive when it wrote its last line.
void RunOutput::note_last_seen() {
  train::Leg& before = training_.legs.back();
  if (!before.ended.empty() || before.next_step) return;
  const auto written = base::last_write(path(config_.metrics).string());
  if (written && *written + base::kTick_s >= base::unix_of(before.date).value_or(*written))
    before.last_seen = base::utc_text(*written);
}

RunOutput::Told RunOutput::start(const LegStart& start, const std::string& checkpoint_dir) {
  Told told;
  comm::agree_on_root(world_, 0, [&] {
    require_standard_output();
    const auto there = train::read_training_file(config_.dir);
    if (there && there->identity.id == start.identity.id) {
      training_ = *there;
    } else {
      training_.origin = start.origin;
      // Earlier legs wrote elsewhere, or were those of an early version, which kept no record.
      if (start.first_step > start.identity.first_step())
        training_.legs.push_back({.first_step = start.identity.first_step()});
    }
    training_.identity = start.identity;
    training_.deck = start.deck;
    training_.inputs = start.inputs;
    training_.slurm_job = start.slurm_job;
    training_.finished = false;
    if (!training_.legs.empty()) note_last_seen();
    training_.legs.push_back({.first_step = start.first_step,
                              .date = utc_now(),
                              .restart = start.restart,
                              .process_began = base::utc_text(start.began),
                              .start_up_s = base::unix_now() - start.began});
    if (start.replaces || training_.replacing > 0)
      replace_others(checkpoint_dir, start.goes_on && training_.replacing == 0, told);
    keep_reports(told);
    cut_back(start, told);
    train::write_training_file(config_.dir, training_);
    metrics_ = std::make_unique<profile::MetricsFile>(path(config_.metrics));
  });
  if (!config_.trace.empty()) comm::agree(world_, [&] { profile::remove_output(trace_file(config_, world_.rank())); });
  return told;
}

void RunOutput::read_recorded(std::string_view id,
                              const std::function<void(const profile::RecordedStep&)>& each) const {
  std::error_code ignored;
  if (!fs::is_regular_file(path(config_.metrics), ignored)) return;
  kept_of(path(config_.metrics), kAllSteps, id, 0, each);
}

bool RunOutput::inform(const std::function<void()>& write) {
  try {
    write();
    return true;
  } catch (const base::Error& e) {
    if (e.code() != base::ExitCode::environment) throw;
    if (world_.rank() != 0 || std::find(unwritten_.begin(), unwritten_.end(), e.what()) != unwritten_.end())
      return false;
    unwritten_.emplace_back(e.what());
    say_(fmt::format("{}; the training goes on", e.what()));
    return false;
  }
}

void RunOutput::keep_overlap(const std::string& plan) {
  if (plan.empty() || world_.rank() != 0) return;
  const std::string file = path(deck::OutputConfig::kOverlap).string();
  inform([&] {
    if (io::text_of(file) != plan) io::write_durably(file, plan);
  });
}

void RunOutput::metrics(const profile::StepMetrics& step) {
  if (step.grad_norm == 0 && !std::exchange(told_of_zero_, true))
    say_(
        fmt::format("the gradient of step {} is exactly 0: nothing is learned. An overflow may have made all "
                    "activations 0: look at the initial weights (model.init_std, model.init_file)",
                    step.step));
  next_step_ = step.step + 1;
  // The lock is a file: on a network's file system each look is a round trip.
  const auto now = std::chrono::steady_clock::now();
  const bool looks = now - looked_ >= std::chrono::seconds(1);
  if (looks) looked_ = now;
  bool whole = false;
  if (looks ? holds() : !lost_) inform([&] { whole = metrics_->write(step); });
  if (!whole) return static_cast<void>(++lines_left_out_);
  totals_.add({step.step, step.loss, step.tokens, step.step_s});
}

bool RunOutput::holds() {
  const auto look = [&] {
    if (auto why = held_->lost(); !why.empty()) throw base::Error(base::ExitCode::environment, why);
  };
  return !lost_ && !(lost_ = !inform(look));
}

void RunOutput::write(const profile::Report& report, const profile::SummaryInput& summary) {
  comm::agree_on_root(world_, 0, [&] {
    if (!holds()) return;
    if (const auto metrics = std::move(metrics_)) inform([&] { metrics->close(); });
    inform([&] { profile::write_timing(path(config_.timing), report); });
    inform([&] { profile::write_ranks(path(deck::OutputConfig::kRanks), report); });
    if (!config_.timing_ranks.empty()) inform([&] { profile::write_timing_ranks(path(config_.timing_ranks), report); });
    inform([&] { profile::write_summary(path(config_.summary), report, summary); });
  });
}

void RunOutput::end_leg(const train::Leg& end, bool finished) {
  if (world_.rank() != 0) return;
  train::Leg& leg = training_.legs.back();
  leg.next_step = end.next_step;
  leg.checkpoint = end.checkpoint;
  leg.seconds = end.seconds;
  leg.ended = base::utc_text(base::unix_now());
  leg.end = end.end;
  training_.finished = finished;
  if (holds()) inform([&] { train::write_training_file(config_.dir, training_); });
  for (const std::string& why : unwritten_) say_(fmt::format("not written by this run: {}", why));
  if (lines_left_out_ > 0)
    say_(fmt::format("'{}' lacks {}", path(config_.metrics).string(),
                     base::count(lines_left_out_, "step of this run", "steps of this run")));
}

profile::Totals RunOutput::totals() const {
  profile::Totals totals = totals_;
  totals.legs = leg();
  totals.first_step = training_.identity.first_step();
  for (const train::Leg& leg : training_.legs) totals.trained_again += leg.trained_again;
  totals.not_recorded = std::max<std::int64_t>(0, next_step_ - totals.first_step - totals.steps);
  return totals;
}

}  // namespace shard8::app

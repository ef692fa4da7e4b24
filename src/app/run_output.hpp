// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/plain_file.hpp"
#include "base/utc.hpp"
#include "comm/communicator.hpp"
#include "deck/config.hpp"
#include "profile/metrics.hpp"
#include "profile/report_files.hpp"
#include "train/checkpoints.hpp"
#include "train/start.hpp"
#include "train/trainer.hpp"

namespace shard8::app {

/// What rank 0 writes down when a leg begins to train.
struct LegStart {
  train::Identity identity;
  bool replaces = false;  ///< there are files of other trainings, which are moved aside
  bool goes_on = false;   ///< what does not say whose it is may be this training's, and stays
  std::int64_t first_step = 0;
  std::string restart{};  ///< checkpoint.restart
  double began = 0;       ///< base::process_began()
  std::string origin{};   ///< folder of the checkpoint with which the training began, if this is its first leg
  std::vector<checkpoint::ManifestKey> deck{};
  train::Inputs inputs{};
  std::string slurm_job{};
  std::function<void(const profile::RecordedStep&)> recorded{};  ///< called for each step that earlier legs recorded
};

/// The files that a run writes into output.dir, and what it keeps of other runs there. Rank 0 writes them; every
/// function but metrics() and read_recorded() is collective and throws an AgreedError with the errors of
/// profile::OutputFile.
///
/// Once the run trains, files that only inform end nothing: metrics, reports, traces, the choice of overlap methods,
/// the end of a leg in training.json. A file that cannot be written is a warning, which end_leg() repeats. A lock that
/// is lost is a warning as well; afterwards rank 0 writes no metrics, no reports and no training.json.
class RunOutput {
 public:
  /// The references must outlive the object.
  RunOutput(const deck::OutputConfig& config, const comm::Communicator& world) : config_(config), world_(world) {}

  /// Error if a rank's file of the trace could not be written. Changes no file.
  void check_trace() const;
  /// Makes the folder if it is missing, and takes its lock. A folder that this object has made and that stays empty is
  /// removed by the destructor. `say` as in checkpoint::LockOptions. AgreedError(checkpoint) if another run that lives
  /// holds the lock.
  void hold(const std::function<void(const std::string&)>& say);
  /// Whether checkpoint.dir is the same folder, whose lock this object holds. The answer is the same on every rank.
  bool is_also(const std::string& checkpoint_dir) const;

  /// Prepares the folder for a leg's files. Moves the files of other trainings aside, in checkpoint.dir too, if
  /// `start.replaces`. Keeps reports of the training's earlier legs as summary.leg_N.json and so on. Cuts metrics.jsonl
  /// back to `start.first_step`. Writes training.json. Returns on rank 0 lines for the user, warnings among them. To be
  /// called after all else that can fail at start-up, so that a run which cannot start changes no file.
  struct Told {
    std::vector<std::string> lines, warnings;
  };
  Told start(const LegStart& start, const std::string& checkpoint_dir);
  /// Calls `each` for the steps of a training in metrics.jsonl. To be called on rank 0. Error(environment) if it cannot
  /// be read.
  void read_recorded(std::string_view id, const std::function<void(const profile::RecordedStep&)>& each) const;
  /// Keeps the choice of overlap methods for later runs, unless it is empty or there already. To be called after
  /// start().
  void keep_overlap(const std::string& plan);
  /// Calls `write`. An Error(environment) of `write` becomes a warning that end_leg() repeats; each warning is given
  /// once. Returns whether there was none.
  bool inform(const std::function<void()>& write);
  /// Writes the line of a step. To be called on rank 0 for each step, after start() and before write().
  void metrics(const profile::StepMetrics& step);
  /// Writes what comes at the end of a run. May be called again with more figures.
  void write(const profile::Report& report, const profile::SummaryInput& summary);
  /// Writes to training.json how this leg ended, and says again what could not be written. To be called after start().
  void end_leg(const train::Leg& end, bool finished);

  /// The number of this leg, from 1, and what all legs have done. To be called on rank 0, after start().
  std::int64_t leg() const { return static_cast<std::int64_t>(training_.legs.size()); }
  profile::Totals totals() const;

 private:
  std::filesystem::path path(const std::string& name) const { return std::filesystem::path(config_.dir) / name; }
  std::vector<std::string> reports() const;
  bool is_input(const std::filesystem::path& file) const;
  bool is_summary_of_other(const std::string& file) const;
  void replace_others(const std::string& checkpoint_dir, bool goes_on, Told& told);
  void keep_reports(Told& told);
  void keep_skeleton(Told& told);
  void cut_back(const LegStart& start, Told& told);
  void note_last_seen();
  bool holds();  ///< whether this run still has the folder's lock; says once that it has lost it

  const deck::OutputConfig& config_;
  const comm::Communicator& world_;
  std::optional<base::MadeFolders> made_;  ///< by hold()
  std::unique_ptr<train::HeldFolder> held_;
  bool lost_ = false;
  std::chrono::steady_clock::time_point looked_{};  ///< when lost_ was found out
  bool told_of_zero_ = false;                       ///< a gradient of 0 was warned of
  std::function<void(const std::string&)> say_;
  std::vector<std::string> unwritten_;  ///< why files that inform could not be written, on rank 0
  std::int64_t lines_left_out_ = 0;     ///< of metrics.jsonl
  train::TrainingFile training_;
  profile::Totals totals_;                         ///< of steps that are in metrics.jsonl
  std::int64_t next_step_ = 0;                     ///< the step after the last one of this leg; 0 before its first
  std::unique_ptr<profile::MetricsFile> metrics_;  ///< open while steps are trained
};

}  // namespace shard8::app

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "comm/communicator.hpp"
#include "deck/config.hpp"
#include "profile/metrics.hpp"
#include "profile/report_files.hpp"

namespace shard8::app {

/// The files that a run writes into output.dir. Rank 0 writes them; every function but metrics() is collective and
/// throws an AgreedError with the errors of profile::OutputFile.
class RunOutput {
 public:
  /// The references must outlive the object.
  RunOutput(const deck::OutputConfig& config, const comm::Communicator& world) : config_(config), world_(world) {}

  /// Error if a file could not be written. Changes no file. `overlap_is_kept`: keep_overlap() may write one.
  void check(bool overlap_is_kept) const;
  /// Removes or empties the files that an earlier run left in output.dir. Only metrics.jsonl keeps its lines of steps
  /// before `first_step`, if these are of the training whose id is `run`. Returns on rank 0 a warning about lines of
  /// other trainings and about missing lines, on other ranks and without such lines an empty text. To be called after
  /// all else that can fail at start-up, so that a run which cannot start changes no file.
  std::string start(std::int64_t first_step, std::string_view run);
  /// Keeps the choice of overlap methods for later runs, unless it is empty or there already. After start().
  void keep_overlap(const std::string& plan) const;
  /// For a line of each step. On rank 0, after start() and before write().
  void metrics(const profile::StepMetrics& step) { metrics_->write(step); }
  /// Writes what comes at the end of a run. May be called again with more figures.
  void write(const profile::Report& report, const profile::SummaryInput& summary);

 private:
  std::filesystem::path path(const std::string& name) const { return std::filesystem::path(config_.dir) / name; }

  const deck::OutputConfig& config_;
  const comm::Communicator& world_;
  std::unique_ptr<profile::MetricsFile> metrics_;  ///< open while steps are trained
};

}  // namespace shard8::app

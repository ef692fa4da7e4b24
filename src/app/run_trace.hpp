// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "deck/config.hpp"
#include "profile/collective_log.hpp"
#include "profile/trace_recorder.hpp"
#include "train/assembly.hpp"
#include "train/loop.hpp"

namespace shard8::app {

/// The trace of a run (deck keys output.trace and output.trace_steps). Made when the training is set up, before its
/// first step. While it lives, timer and log tell it what happens.
class RunTracer {
 public:
  /// The references must outlive the object. Collective.
  RunTracer(train::Assembly& assembly, const train::Steps& steps, profile::CollectiveLog& log,
            const comm::Communicator& world);
  RunTracer(const RunTracer&) = delete;
  RunTracer& operator=(const RunTracer&) = delete;
  ~RunTracer();

  /// After each step, before the next one begins. `step` is its number.
  void after_step(std::int64_t step);
  /// Between two steps: the collectives until resume() are of no step.
  void pause() { log_.set_trace(nullptr); }
  void resume() { log_.set_trace(&recorder_); }
  /// Writes this rank's file. Returns a line for rank 0 to print. Collective, after the last step, with no collective
  /// under way. AgreedError(environment) if a file cannot be written.
  std::string write(const std::string& host);

 private:
  void set_origin();

  train::Assembly& assembly_;
  profile::CollectiveLog& log_;
  const comm::Communicator& world_;
  profile::TraceRecorder recorder_;
  std::vector<comm::ClockReading> clock_;
};

/// This rank's file of a deck's trace.
std::filesystem::path trace_file(const deck::OutputConfig& config, int rank);

}  // namespace shard8::app

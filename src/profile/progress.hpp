// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "profile/metrics.hpp"

namespace shard8::profile {

/// Says how far a run is: on a terminal one line that is written over at most ten times a second;
/// else a plain line every `log_every` steps, and for the first and the last. Of one rank.
class Progress {
 public:
  /// Steps are numbered from `first_step` up to `end_step`, not included.
  Progress(std::FILE* out, bool is_terminal, std::int64_t first_step, std::int64_t end_step, std::int64_t log_every);
  /// Leaves the line that was written over.
  ~Progress() { leave_line(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step(const StepMetrics& metrics);
  /// Before anything else is printed.
  void leave_line();

 private:
  std::string text(const StepMetrics& metrics) const;

  std::FILE* out_;
  bool is_terminal_;
  std::int64_t first_step_, end_step_, log_every_;
  double since_printed_s_ = 0;
  double mean_step_s_ = 0;  // of late
  bool on_line_ = false;
};

/// "4:05", "1:02:03".
std::string clock_text(double seconds);

}  // namespace shard8::profile

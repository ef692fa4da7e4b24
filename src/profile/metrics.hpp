// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "profile/output_file.hpp"

namespace shard8::profile {

/// What a step came to.
struct StepMetrics {
  std::int64_t step = 0;  ///< from 0
  double loss = 0;        ///< mean over the global batch's tokens
  double grad_norm = 0;   ///< before clipping
  double lr = 0;
  std::int64_t tokens = 0;  ///< of this step
  double step_s = 0;
  double tokens_per_s = 0;
};

/// One JSON object, no newline, keys in the order above; numbers as short as reads back to the same
/// bits, null for what is not finite.
std::string to_json_line(const StepMetrics& metrics);

/// metrics.jsonl: one line a step, handed to the system at once.
class MetricsFile {
 public:
  explicit MetricsFile(const std::filesystem::path& path) : file_(path) {}
  void write(const StepMetrics& metrics) { file_.write(to_json_line(metrics) + '\n'); }
  void close() { file_.close(); }

 private:
  OutputFile file_;
};

}  // namespace shard8::profile

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profile/output_file.hpp"

namespace shard8::profile {

/// The figures of one step of the whole job.
struct StepMetrics {
  std::int64_t step = 0;  ///< from 0
  double loss = 0;        ///< mean over the tokens of the global batch
  double grad_norm = 0;   ///< before clipping
  double lr = 0;
  std::int64_t tokens = 0;  ///< of this step
  double step_s = 0;        ///< seconds
  double tokens_per_s = 0;
  std::string_view run{};  ///< name of the training that did the step; train::new_run_id() makes it
  /// Joules of the whole job in the `energy_steps` steps before this one, with what lies between them; at the interval
  /// of run.log_every, where counters can be read.
  std::optional<double> energy_j{};
  std::int64_t energy_steps = 0;
  std::optional<double> validation_loss{};  ///< behind this step
  double validation_s = 0;                  ///< seconds; of validation_loss
  /// Of a model with experts: how many tokens chose an expert, over all experts of all layers, and the balance loss,
  /// which is not part of the loss.
  struct Experts {
    double balance = 0;
    std::int64_t least = 0, most = 0;
    double mean = 0;
  };
  std::optional<Experts> experts{};
  /// The gradient norms of the model's units before clipping; a unit without parameters has 0.
  struct UnitNorms {
    double embedding = 0;
    std::vector<double> layers{};
    double head = 0;                ///< with the final norm and a tied table
    std::vector<double> experts{};  ///< of the layers that have some, in their order
  };
  std::optional<UnitNorms> unit_norms{};
  /// The norms of the weights kept in FP8 with which the step began, by layer and by layer with experts; a layer
  /// without such weights has 0, a weight with two copies counts with both. The rest of UnitNorms is not used.
  std::optional<UnitNorms> weight_norms{};
};

/// One JSON object without a newline, with the members of StepMetrics in their order; those behind `run` are left out
/// where there are none. A number has the fewest digits that read back to the same bits, norms of units at most nine.
/// NaN and infinity are null.
std::string to_json_line(const StepMetrics& metrics);

/// metrics.jsonl: one line for each step. Every call throws the errors of OutputFile.
class MetricsFile {
 public:
  /// After a failed write the file is tried again when so much time has passed. Chosen: not felt on a slow file system.
  static constexpr std::chrono::milliseconds kRetry{1000};

  /// Lines go to the end of a file that is there.
  explicit MetricsFile(std::filesystem::path path);
  /// Writes a line. After an error the file, unless it is no regular one, ends with its last whole line, and later
  /// calls write theirs once there is room again. Returns false if the line was left out without another try.
  bool write(const StepMetrics& metrics);
  void close();

 private:
  void open();

  std::filesystem::path path_;
  std::optional<OutputFile> file_;      ///< none after an error
  std::optional<std::uintmax_t> size_;  ///< of the whole lines in a regular file
  std::chrono::steady_clock::time_point failed_{};
};

/// The trainings and steps to which the lines of a metrics.jsonl belong.
struct MetricsOwners {
  struct Steps {
    std::int64_t first = 0, last = 0;  ///< numbers of steps
  };
  std::map<std::string, Steps, std::less<>> trainings;  ///< by the lines' `run`
  bool has_unnamed = false;                             ///< lines without `run`, which early versions wrote
};
/// Reads a metrics.jsonl line by line. The caller looks whether `in` could be read to its end.
MetricsOwners owners_of_metrics(std::istream& in);
MetricsOwners owners_of_metrics(std::string_view text);

/// A step of a training that an earlier leg has recorded.
struct RecordedStep {
  std::int64_t step = 0;
  double loss = 0;  ///< NaN where the line has none that is finite
  std::int64_t tokens = 0;
  double step_s = 0;
  std::optional<double> validation_loss{};  ///< nothing: there was no validation; NaN where it was not finite
};

/// The part of a metrics.jsonl that stays when a run restarts from a checkpoint, and what was found on the way.
struct KeptMetrics {
  std::string text;            ///< the lines that stay, unchanged and in their order; empty where `keep` took them
  bool whole = true;           ///< all of the file stays
  std::int64_t cut_back = 0;   ///< lines of the training that were dropped: of step `first` and later ones
  std::int64_t of_others = 0;  ///< lines that were dropped because their `run` is that of another training
  std::int64_t unreadable =
      0;                     ///< lines that were dropped because they are no metrics; a last line that was cut is none
  std::int64_t missing = 0;  ///< how many steps from `begin` to the restart have no line
  std::int64_t first_missing = 0;  ///< the first of these steps
  /// A warning that names the dropped lines, but for those that were cut back, and the missing steps; empty if there
  /// are neither.
  std::string warning() const;
};

/// Drops from the text of a metrics.jsonl the lines of step `first` and later ones, lines whose `run` is another one,
/// and lines that are no JSON object with a step. A line without the key `run` stays: early versions wrote none. The
/// training began with step `begin`. `each` is called for the step of every line that stays, and `keep` with the line
/// and its end; `lost` for the step of every line that is cut back. One line is in memory at a time. The caller looks
/// whether `in` could be read to its end.
KeptMetrics metrics_before(std::istream& in, std::int64_t first, std::string_view run, std::int64_t begin,
                           const std::function<void(const RecordedStep&)>& each,
                           const std::function<void(std::string_view line)>& keep = {},
                           const std::function<void(const RecordedStep&)>& lost = {});
/// As metrics_before() of a stream, for a text in memory.
KeptMetrics metrics_before(std::string_view text, std::int64_t first, std::string_view run, std::int64_t begin = 0,
                           const std::function<void(const RecordedStep&)>& each = {});

/// Prints the progress of a run; one rank has the object. A terminal shows one line, rewritten at most ten times a
/// second. Other outputs get a line for the first and the last step, for every `log_every`-th step, and for steps with
/// a validation, which a terminal keeps, too. A line has the tokens/s of all steps since the line before.
class Progress {
 public:
  /// Steps are numbered from `first_step` up to but not including `end_step`.
  Progress(std::FILE* out, bool is_terminal, std::int64_t first_step, std::int64_t end_step, std::int64_t log_every);
  ~Progress() { end_line(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Must be called after every step.
  void step(const StepMetrics& metrics);

 private:
  /// Ends the line on the terminal, if one is begun.
  void end_line();
  std::string text(const StepMetrics& metrics) const;

  std::FILE* out_;
  bool is_terminal_;
  std::int64_t first_step_, end_step_, log_every_;
  double since_printed_s_ = 0;
  std::int64_t since_printed_tokens_ = 0;
  double mean_step_s_ = 0;  ///< exponential moving average
  bool line_open_ = false;
};

/// Minutes and seconds, "4:05", or hours too, "1:02:03". Fractions of a second are rounded up; negative times are 0.
std::string clock_text(double seconds);

}  // namespace shard8::profile

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "deck/config.hpp"
#include "profile/metrics.hpp"
#include "profile/report.hpp"

namespace shard8::train {

/// Compares the losses of a training with what the deck's verify group requires: bounds, the data's unigram entropy,
/// and the losses of the gold file. The object is given the losses of all legs, each step's once, in any order.
///
/// The final losses of a training, that of the validation behind its last step too, are not held against limits if the
/// training has fewer than verify.min_steps steps: if nothing else
/// fails, the result is `not_checked`, and `why` has both numbers. Each loss is compared with the gold loss of its
/// step, relative to it; the gold file's last step must be the last step. The result's `why` lists the checks that
/// failed, with their numbers, and of the gold file only the first step that differs.
class LossJudge {
 public:
  /// `gold` has the losses of all steps from step 0 on. `config` and `gold` must outlive the object.
  LossJudge(const deck::VerifyConfig& config, const std::vector<double>& gold) : config_(config), gold_(gold) {}

  void add(std::int64_t step, double loss);
  /// The loss of the validation behind the step.
  void add_validation(std::int64_t step, double loss);
  /// Adds the losses of a step that an earlier leg has recorded. A loss of other validation data is not judged.
  void add(const profile::RecordedStep& step, bool same_validation = true) {
    add(step.step, step.loss);
    if (!step.validation_loss) return;
    if (same_validation)
      add_validation(step.step, *step.validation_loss);
    else
      other_validated_step_ = std::max(other_validated_step_, step.step);
  }

  /// The verdict on a training whose steps below `end` are done. `finished`: they are all steps of the deck. If a run
  /// is not finished, which stopped before its last step, only its losses are compared with the gold file; without a
  /// difference the result is `not_reached`. `failed` if a final loss is to be judged and was never added.
  /// Error(failed) if verify.unigram_ratio_max is set and the entropy is not given.
  profile::Verification verdict(std::int64_t end, std::optional<double> unigram_entropy, bool finished) const;

 private:
  void judge_final_loss(std::string& why, double loss, std::optional<double> unigram_entropy) const;
  void judge_validation_loss(std::string& why, std::int64_t end) const;
  void judge_gold(std::string& why, std::int64_t end, bool finished) const;

  const deck::VerifyConfig& config_;
  const std::vector<double>& gold_;
  std::int64_t last_step_ = -1;             ///< the highest step that was added
  double last_loss_ = 0;                    ///< of last_step_
  std::int64_t validated_step_ = -1;        ///< the highest step behind which a validation loss was added
  double validation_loss_ = 0;              ///< of this validation
  std::int64_t other_validated_step_ = -1;  ///< the highest step behind which other data were validated
  std::int64_t first_off_ = -1;             ///< the first step that differs from gold; -1: none
  double off_loss_ = 0;                     ///< of first_off_
};

/// The losses of a gold file by step number. Each line of the file is a JSON object with "step" (0, 1, 2, ...) and
/// "loss", as in metrics.jsonl. Error(deck) if the file cannot be opened, or, with file and line, if a line is not so.
std::vector<double> read_gold(const std::string& path);

/// The losses of the deck's gold file, none without one. Error(deck) as read_gold() gives it, if the file has no step,
/// and if it has more or fewer than run.steps, by which the training would fail at its end; not if run.stop_after or
/// run.time_limit_min may end this run before.
std::vector<double> gold_of(const deck::Config& config);

}  // namespace shard8::train

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>

#include "deck/config.hpp"
#include "profile/report.hpp"
#include "train/trainer.hpp"

namespace shard8::train {

/// Compares the losses of a run with what the deck's verify group asks for: bounds, the data's unigram entropy, and the
/// losses of the gold file. `results` are the steps of this run, at least one. `gold` has the losses of all steps from
/// step 0 on; the gold file's last step must be the run's last step. Each loss is compared with the gold loss of its
/// step, relative to it. The result's `why` lists the checks that failed, with their numbers, and of the gold file only
/// the first step that differs. Error(failed) if verify.unigram_ratio_max is set and the entropy is not given.
///
/// The final loss of a run that has fewer than verify.min_steps steps is not held against limits: if nothing else fails,
/// the result is `not_checked`, and `why` has both numbers.
///
/// Of a run that is not `finished`, which stopped before its last step, only losses are compared with the gold file.
/// Without a difference the result is `not_reached`.
profile::Verification verify(const deck::VerifyConfig& config, std::span<const StepResult> results,
                             std::optional<double> unigram_entropy, std::span<const double> gold, bool finished = true);

/// The losses of a gold file by step number. Each line of the file is a JSON object with "step" (0, 1, 2, ...) and
/// "loss", as in metrics.jsonl. Error(deck) if the file cannot be opened, or, with file and line, if a line is not so.
std::vector<double> read_gold(const std::string& path);

}  // namespace shard8::train

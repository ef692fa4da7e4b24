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

/// Compares the losses of a run with what the deck's verify group asks for: bounds, the data's unigram entropy (if
/// known), and the losses of the gold file. `results` are the steps of this run, at least one; `gold` the losses of all
/// steps from step 0 on. A loss is compared with the gold loss of its step's number, and the last steps must be the
/// same. `why` of a failure lists each check that failed, with its numbers.
profile::Verification verify(const deck::VerifyConfig& config, std::span<const StepResult> results,
                             std::optional<double> unigram_entropy, std::span<const double> gold);

/// The losses of a gold file by step number. The file has one JSON object a line with "step" (0, 1, 2, ...) and "loss",
/// as metrics.jsonl has. Error(deck) with file and line when it is anything else.
std::vector<double> read_gold(const std::string& path);

}  // namespace shard8::train

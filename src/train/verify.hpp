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

/// Holds the losses of a run against what the deck's verify group asks for: bounds, the data's
/// unigram entropy (if known), the losses of the gold file. `why` of a failure lists each check that failed, with its
/// numbers.
profile::Verification verify(const deck::VerifyConfig& config, std::span<const StepResult> results,
                             std::optional<double> unigram_entropy, std::span<const double> gold);

/// The losses of a gold file: a JSON object a line with "step" (0, 1, 2, ...) and "loss", as in
/// metrics.jsonl. Error(deck) with file and line when it is anything else.
std::vector<double> read_gold(const std::string& path);

}  // namespace shard8::train

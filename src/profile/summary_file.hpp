// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "profile/report.hpp"

namespace shard8::profile {

/// What the summary says beside the report.
struct SummaryInput {
  struct DeckValue {
    std::string group, key, value;
    bool text = false;  ///< a string; else a number or a truth value, written as it is
  };
  /// What the header of the report says beside the deck.
  struct Run {
    std::string backend, device;
    int threads_per_rank = 0;
    std::string waiting, data;
  };
  struct Memory {
    std::string kind;
    std::uint64_t bytes = 0;
  };
  std::vector<std::pair<std::string, std::string>> version{};
  std::vector<DeckValue> deck{};  ///< resolved
  Run run{};
  std::vector<std::pair<std::string, std::string>> environment{};  ///< variables that matter
  std::vector<std::pair<std::string, std::string>> slurm{};
  std::vector<Memory> memory{};  ///< per rank
  double final_loss = 0;
  std::optional<double> unigram_entropy{};  ///< of the data, in nats, if it was found
};

/// Those of `variables` (as in environ: "NAME=value", ends with null) whose names begin with one of the prefixes, by
/// name. Names that hold JWT, TOKEN, KEY, SECRET or PASSWORD are left out: summaries are passed around.
std::vector<std::pair<std::string, std::string>> variables_with(const char* const* variables,
                                                                std::span<const std::string_view> prefixes);

/// summary.json: what was run, where, and everything of the report.
std::string to_json(const Report& report, const SummaryInput& input);
void write_summary(const std::filesystem::path& path, const Report& report, const SummaryInput& input);

}  // namespace shard8::profile

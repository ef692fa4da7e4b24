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

#include "profile/figures.hpp"
#include "profile/report.hpp"

namespace shard8::profile {

/// Where the time of one process of a training went, on rank 0. Points in time are seconds since the begin of 1970.
struct LegTimes {
  double began = 0;         ///< begin of the process
  double ended = 0;         ///< when its report was made
  double start_up_s = 0;    ///< from its begin to its first step
  double steps_s = 0;       ///< of all its steps, the first run.timing_skip ones included
  double held_up_s = 0;     ///< of these, for which checkpoints held training up
  double validation_s = 0;  ///< of validations, which are of no step
  double after_last_s = 0;  ///< for which checkpoints held it up behind the last step
};

/// Writes timing.csv with the columns step,phase,part,min_s,mean_s,max_s,worst_rank. Every measured step, or every
/// StepSpreads::row_steps of them as one, has the rows of timed_rows(). `step` is the first of them. The part of
/// emulated products is "gemm (emulated)". Throws the errors of OutputFile.
void write_timing(const std::filesystem::path& path, const Report& report);

/// The version of summary.json's layout. Readers take this one and those before it. Version 1 has neither the objects
/// training, inputs and totals nor a leg.
inline constexpr int kSummarySchema = 2;

/// What a file of an earlier leg is called: "summary.leg_2.json" for leg 2 of "summary.json".
std::string name_of_leg(const std::string& file, std::int64_t leg);
/// The leg of such a name, from 1; nothing if `name` is not that of an earlier leg of `file`.
std::optional<std::int64_t> leg_of_name(const std::string& name, const std::string& file);

/// The number of the leg that wrote the summary.json with this text; nothing if the text has no such number, as in
/// schema 1, or is no JSON.
std::optional<std::int64_t> leg_of_summary(const std::string& text);
/// The id of the training whose leg wrote the summary.json with this text; empty if the text has none.
std::string training_of_summary(const std::string& text);

/// What the skeleton run kept of a step that wrote the summary.json with this text; empty if no skeleton run did.
std::string skeleton_of_summary(const std::string& text);

/// Writes ranks.csv with the columns rank,host,phase,part,mean_s: each rank's mean over the measured steps of each of
/// timed_rows(). Throws the errors of OutputFile.
void write_ranks(const std::filesystem::path& path, const Report& report);

/// Writes a table with a row for each measured step, or each StepSpreads::every_steps of them as one, and rank: the
/// first step, the rank, then seconds in the order of
/// timed_rows(), with columns like "data", "forward.gemm" and "total" (the whole step). The caller guarantees that the
/// report was made with ReportInput::every_rank. Throws the errors of OutputFile.
void write_timing_ranks(const std::filesystem::path& path, const Report& report);

/// What summary.json contains besides the report.
struct SummaryInput {
  struct DeckValue {
    std::string group, key, value;
    bool text = false;  ///< true: a string; false: a number or a truth value, written without quotes
  };
  /// What the run's printed header shows besides the deck.
  struct Run {
    std::string backend, device;
    int threads_per_rank = 0;
    std::string waiting, data;
    std::vector<std::string> collectives{};  ///< on devices: how the groups' collectives are done
  };
  /// How the run ended.
  struct End {
    std::string reason{};        ///< why it stopped before its last step; empty: it did not
    std::int64_t next_step = 0;  ///< number of the first step that was not trained
    std::int64_t steps = 0;      ///< all steps of the deck
    bool checkpoint = false;     ///< a checkpoint of this run exists
  };
  struct Memory {
    std::string kind;
    std::uint64_t bytes = 0;
  };
  /// Which training the run belongs to.
  struct Training {
    std::string id{};
    std::string parent{};          ///< id of the training with whose checkpoint this one began; empty: none
    std::int64_t parent_step = 0;  ///< step of that checkpoint
    std::int64_t leg = 1;          ///< number of this process among those of the training, from 1
    std::string from{};            ///< folder of the checkpoint from which this leg went on; empty: none
  };
  /// An input of the training. `digest` is empty if the input has no content of its own: synthetic data, random
  /// weights.
  struct Input {
    std::string name{}, path{};
    std::uint64_t length = 0;
    std::int64_t samples = 0;
    std::string digest{};
  };
  std::string date{};                  ///< UTC, when the summary was made
  std::vector<std::string> command{};  ///< the command line
  std::vector<std::pair<std::string, std::string>> version{};
  std::vector<std::pair<std::string, std::string>> gpu{};  ///< name and versions; an empty text is written as null
  std::vector<DeckValue> deck{};                           ///< all keys, with defaults
  Run run{};
  std::vector<std::pair<std::string, std::string>> environment{};  ///< variables that influence a run
  std::vector<std::pair<std::string, std::string>> slurm{};
  std::vector<Memory> memory{};  ///< per rank
  Training training{};
  std::vector<Input> inputs{};
  Totals totals{};
  End end{};
  std::optional<LegTimes> leg_times{};  ///< none: nothing was run
  OverlapChoice overlap{};
  double final_loss = 0;
  std::optional<double> unigram_entropy{};  ///< of the data, in nats, if it was computed
};

/// The environment variables whose names begin with one of the prefixes, sorted by name. `variables` has the form of
/// environ: "NAME=value" texts, then null. Names that contain JWT, TOKEN, KEY, SECRET or PASSWORD are left out, because
/// users pass summaries on.
std::vector<std::pair<std::string, std::string>> variables_with(const char* const* variables,
                                                                std::span<const std::string_view> prefixes);

/// The text of summary.json: what ran, where, and the whole report.
std::string to_json(const Report& report, const SummaryInput& input);
/// Writes summary.json, the text of to_json(). Throws the errors of OutputFile.
void write_summary(const std::filesystem::path& path, const Report& report, const SummaryInput& input);

}  // namespace shard8::profile

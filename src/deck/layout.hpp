// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "deck/config.hpp"

namespace shard8::deck {

/// How a step's sequences are distributed over ranks. Every data rank runs `micro_batches` micro-batches of
/// `micro_batch` sequences. Sequences beyond the batch are padding of weight 0.
struct Layout {
  std::int64_t ranks = 0;          ///< replicate * shard * tensor
  std::int64_t data_ranks = 0;     ///< P = replicate * shard
  std::int64_t rank_batch = 0;     ///< ceil(batch / P): the most sequences of a data rank
  std::int64_t micro_batch = 0;    ///< sequences in a micro-batch: data.micro_batch, at most rank_batch; 0: rank_batch
  std::int64_t micro_batches = 0;  ///< ceil(rank_batch / micro_batch)
  std::int64_t padding = 0;        ///< sequences of weight 0 in a step, over all data ranks
  std::int64_t tensor_tokens = 0;  ///< micro_batch·seq / tensor: tokens of a micro-batch that a tensor rank holds
};

/// The layout of a Config that load() returned, or of one whose batch, mesh and seq are positive.
Layout lay_out(const Config& config);

/// What `shard8 check` prints: model, mesh, batch, precision, schedule, ..., one line each, with the arithmetic. The
/// Config must come from load().
std::string describe(const Config& config);

/// Steps by number, from 0, first and last included.
struct StepRange {
  std::int64_t first = 0, last = 0;
  bool operator==(const StepRange&) const = default;
};

/// The most steps that output.trace_steps may name. Chosen: spans are kept in memory until the end of a run.
inline constexpr std::int64_t kMostTracedSteps = 100;
/// Steps that are traced where output.trace_steps is empty: the first ones that figures count.
inline constexpr std::int64_t kDefaultTracedSteps = 3;

/// Parses output.trace_steps: numbers and ranges, separated by commas, ascending: "3", "3:5", "3,10:12". Returns
/// nothing, with the reason in `problem`, if the text is something else or names more than kMostTracedSteps steps. The
/// empty text is no step.
std::optional<std::vector<StepRange>> parse_trace_steps(std::string_view text, std::string& problem);

/// The file in output.dir that says to which training the other files there belong.
inline constexpr const char* kTrainingFile = "training.json";

/// A file that a run writes into output.dir.
struct WrittenFile {
  std::string_view key;  ///< of the deck, "output.summary", or what the file is called for a name that no key changes
  std::string name;      ///< in output.dir; of output.trace the key's value: see base::rank_file_name()
  bool has_key() const { return key.starts_with("output."); }
  bool is_trace() const { return key == "output.trace"; }
};

/// Every file that some run of these keys writes into output.dir, those with keys first. Whoever adds a file to runs
/// adds it here: what may not be overwritten, what `check` looks at and what `check --files` prints come from this
/// list.
std::vector<WrittenFile> written_files(const OutputConfig& output);

/// The files that runs of `config`, which has no errors, write into output.dir and leave there.
std::vector<WrittenFile> written_files(const Config& config);

/// Whether the name is that of a file in output.dir: no path, and neither "." nor "..".
bool is_file_name(std::string_view name);
/// Whether a run itself uses the name in output.dir: training.json and the lock, which say whose the folder is, and the
/// folders replaced_N, to which it moves another training's files.
bool is_reserved(std::string_view name);
/// Whether checkpoints use the name in their folder.
bool is_name_of_checkpoints(std::string_view name);

/// The folder below output.dir that a run takes for checkpoint.dir if it is there; nothing for a deck that names a
/// folder of checkpoints, or from where to restart.
std::optional<std::filesystem::path> default_checkpoint_folder(const Config& config);

}  // namespace shard8::deck

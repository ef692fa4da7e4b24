// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/job.hpp"
#include "app/process.hpp"
#include "base/log.hpp"
#include "checkpoint/manifest.hpp"
#include "comm/communicator.hpp"
#include "comm/node.hpp"
#include "deck/load.hpp"
#include "profile/figures.hpp"
#include "profile/report.hpp"
#include "profile/report_files.hpp"
#include "tensor/arena.hpp"
#include "tensor/runtime.hpp"
#include "train/assembly.hpp"
#include "train/checkpoints.hpp"
#include "train/overlap/choice.hpp"
#include "train/stopping.hpp"

namespace shard8::app {

/// What the header of a run tells.
struct RunHeader {
  const comm::Communicator& world;
  const comm::Node& node;
  const train::Assembly& assembly;
  const train::OverlapDecision& overlap;
  const train::RunDescription& run;
  const std::optional<train::RestartPoint>& point;  ///< the checkpoint from which the run goes on
  std::optional<double> entropy;                    ///< of the data, in nats
  std::int64_t steps = 0;                           ///< run.steps
};

/// Prints what runs where: version, deck, ranks and devices, remarks of the assembly. Prints a warning, too, where
/// ranks share cores.
void print_job(const base::Logger& logger, const comm::Communicator& world, const comm::Node& node,
               const train::Assembly& assembly);

/// The measured steps begin: collectives and issue times count from now on. Returns what this process has had of the
/// processor so far; the caller sets its `end` behind the last measured step.
profile::MeasuredUse begin_measuring(train::Assembly& assembly, profile::CollectiveLog& log);

/// Prints the lines before the first step, and a warning where ranks share cores.
void print_header(const base::Logger& logger, const RunHeader& header);

/// Every key of a deck, for summary.json.
std::vector<profile::SummaryInput::DeckValue> deck_values(const std::vector<deck::Echo>& echo);

/// The date and time, as in "2026-11-26T05:39:00Z".
std::string utc_now();

/// The functions with which a report gathers its figures over all ranks of `world`, which must outlive them.
profile::Gather gather_over(const comm::Communicator& world);

/// Bytes of memory of a rank in a run: as planned, and as measured.
struct MemoryFigures {
  bool on_device = false;
  tensor::MemoryBytes arenas{};
  std::uint64_t reduction_buffers = 0;
  std::uint64_t user_buffers = 0;       ///< 0: no exchange of the tensor group overlaps through them
  std::uint64_t nccl = 0;               ///< train::Plan::nccl
  std::uint64_t checkpoint_copies = 0;  ///< host memory, on devices pinned; 0: no checkpoints are written
  std::uint64_t planned = 0;            ///< train::Plan::needed_bytes
  /// How much memory a rank took after the mesh was built: of all ranks' values the largest. On hosts the value is the
  /// peak of the resident set less the resident set at that time. On devices it is the growth of the memory that is
  /// taken of the device. The growth includes NCCL's communicators, which are made when they are first used.
  std::uint64_t measured = 0;
};

/// The figures of a run that took `growth` bytes on this rank after the mesh was built. Collective.
MemoryFigures memory_figures(const train::Assembly& assembly, std::uint64_t growth);

/// The kind of product that the linears of layers compute: the report's MFU compares with its peak.
profile::Products products_of(const train::Setup& setup);

/// Version, deck, memory, devices and environment for summary.json.
profile::SummaryInput summary_input(const std::vector<deck::Echo>& echo, const train::Assembly& assembly,
                                    const MemoryFigures& memory);

/// An input of the training for summary.json; `path` is that of the deck, for an input without content.
profile::SummaryInput::Input input_of(const char* name, const std::string& path,
                                      const std::optional<checkpoint::ManifestInput>& input);

/// The lines on memory of the printed report.
std::string to_text(const MemoryFigures& memory);

/// What `run --quiet` says at its end, on the rank that speaks: warnings of the report and a verification that failed.
void warn_of(const base::Logger& logger, const profile::Report& report);
void warn_of(const base::Logger& logger, const profile::Verification& verification);
/// The verdict of a run that trains no step. `quiet`: a failure is an error, too.
void tell_of(base::Logger& logger, const profile::Verification& verification, bool quiet);

/// Error(deck), with all reasons, when the deck has nothing to compare: overlap.enable is false, all its methods are
/// off, mesh.tensor is 1, or run.steps is less than a block. `name`: of the deck.
void check_compare_off(const std::string& name, const deck::LoadResult& deck);

/// Measures the step time of the deck and of the same deck with overlap.enable = false, in blocks of steps in turns:
/// `pairs` of them, 1 or more.
///
/// Each block trains from random weights and step 0 in an assembly of its own, which is freed before the next one is
/// made. A block reads the deck's data, and writes no metrics and no checkpoints. When the `sources` of a rank give a
/// stop request, all ranks end the comparison after the step under way, and the result has only the pairs of blocks
/// that were complete. Collective. The deck must have passed check_compare_off(). Errors of train::Assembly.
profile::CompareOff compare_off(const deck::Config& config, int pairs, const comm::Communicator& world,
                                const tensor::Runtime& runtime, const train::Stopping::Sources& sources);

/// The keys that a deck gives and a skeleton run does not use: model.init_file, data.path, those of validation,
/// output.metrics, output.replace, and those of the groups verify and checkpoint.
std::vector<std::string> unused_by_skeleton(const deck::LoadResult& deck);

/// Refuses, with Error(environment), an output.dir that holds the files of a training, or a summary of anything but a
/// skeleton.
void require_no_training(const deck::Config& config);

/// One rank's skeleton run, from the deck to the report: steps without data, loss and checkpoints. Returns the exit
/// code. Collective. Errors as those of a run.
int skeleton_run(Job& job, const StopRequests& requests, std::vector<std::string> command);

}  // namespace shard8::app

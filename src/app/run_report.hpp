// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "checkpoint/manifest.hpp"
#include "comm/mesh.hpp"
#include "deck/load.hpp"
#include "profile/report.hpp"
#include "profile/report_files.hpp"
#include "tensor/arena.hpp"

namespace shard8::app {

/// The date and time, as in "2026-11-26T05:39:00Z".
std::string utc_now();

/// The functions with which a report gathers its figures over all ranks of `world`, which must outlive them.
profile::Gather gather_over(const comm::Communicator& world);

/// Bytes of memory of a rank in a run: as planned, and as measured.
struct MemoryFigures {
  tensor::MemoryBytes arenas{};
  std::uint64_t reduction_buffers = 0;
  std::uint64_t user_buffers = 0;       ///< 0: no exchange of the tensor group overlaps through them
  std::uint64_t checkpoint_copies = 0;  ///< host memory, on devices pinned; 0: no checkpoints are written
  std::uint64_t planned = 0;            ///< train::Plan::total_bytes
  /// How much memory a rank took after the mesh was built: of all ranks' values the largest. On hosts the value is the
  /// peak of the resident set less the resident set at that time. On devices it is the growth of the memory that is
  /// taken of the device. That includes NCCL's communicators, which are made when they are first used.
  std::uint64_t measured = 0;
};

/// Version, deck, memory and environment for summary.json.
profile::SummaryInput summary_input(const std::vector<deck::Echo>& echo, const MemoryFigures& memory);

/// An input of the training for summary.json; `path` is that of the deck, for an input without content.
profile::SummaryInput::Input input_of(const char* name, const std::string& path,
                                      const std::optional<checkpoint::ManifestInput>& input);

/// The lines on memory of the printed report.
std::string to_text(const MemoryFigures& memory);

/// What `run --quiet` says at its end, on the rank that speaks: warnings of the report and a verification that failed.
void warn_of(const base::Logger& logger, const profile::Report& report);
void warn_of(const base::Logger& logger, const profile::Verification& verification);

}  // namespace shard8::app

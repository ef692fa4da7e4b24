// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "comm/mesh.hpp"
#include "deck/load.hpp"
#include "profile/report.hpp"
#include "profile/summary_file.hpp"
#include "tensor/arena.hpp"

namespace shard8::app {

/// Gathers a report's figures over all ranks of `world`.
profile::Gather gather_over(const comm::Communicator& world);

/// Bytes of memory of a run: what the plan says, and what was measured, the largest of all ranks.
struct MemoryFigures {
  tensor::MemoryBytes arenas{};
  std::uint64_t reduction_buffers = 0;
  std::uint64_t planned = 0;   ///< arenas and reduction buffers
  std::uint64_t measured = 0;  ///< hosts: growth of the peak resident set; devices: memory taken since start-up
};

/// Version, deck, memory and environment for summary.json.
profile::SummaryInput summary_input(const std::vector<deck::Echo>& echo, const MemoryFigures& memory);

/// The lines on memory of the printed report.
std::string to_text(const MemoryFigures& memory);

}  // namespace shard8::app

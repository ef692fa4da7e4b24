// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "deck/config.hpp"

namespace shard8::app {

/// What the checkpoints of a deck need and have.
struct CheckpointRoom {
  std::uint64_t bytes = 0;            ///< of the tensors of one checkpoint
  std::int64_t kept = 0;              ///< the most checkpoints that are there at once, one that is written included
  std::optional<std::uint64_t> free;  ///< of the folder's file system; none if it cannot be found
  std::string file_system;            ///< the folder that `free` was read of: the nearest that exists
  std::uint64_t copies = 0;           ///< host memory of a rank for copies of the state

  std::uint64_t needed() const { return bytes * static_cast<std::uint64_t>(kept); }
  bool short_of_room() const { return free && *free < needed(); }
};

/// Of a deck whose runs write checkpoints.
CheckpointRoom checkpoint_room(const deck::Config& config);

/// Prints the lines of `check` on checkpoints, and a warning to standard error if the file system has less room than
/// they need. Prints nothing for a deck whose runs write none.
void print_checkpoint_room(const deck::Config& config);

}  // namespace shard8::app

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tests/sequences/world.hpp"

namespace shard8::test {

/// What must come of a command.
struct Outcome {
  int refused = 0;                ///< the exit code with which the program refuses to start; 0: it starts
  std::vector<std::string> says;  ///< texts that the refusal's message, or the run's output, must have
  std::string why;                ///< the rule that decided, for messages of this test
  std::vector<int> or_refused{};  ///< it may also be refused with one of these codes: the rules leave it open

  int training = -1;               ///< that goes on; -1: a new one
  std::optional<Parent> parent{};  ///< of a new one
  std::vector<Segment> lineage{};  ///< of either
  std::int64_t first = 0;          ///< step with which it begins
  std::optional<Origin> point{};   ///< the checkpoint from which it goes on
  bool later = false;              ///< no first leg: checkpoint.restart and output.replace count for nothing
  bool moves_output = false;       ///< the files of output.dir are moved to replaced_N
  bool moves_checkpoints = false;  ///< those of checkpoint.dir
  bool finishes_move = false;      ///< a run that was killed had begun to move them
};

/// What the rules of docs/checkpoint.md, "Identity", say of a command. deck.content is that of
/// the file; a file that is missing is no concern here.
Outcome decide(const World& world, const Command& command);

}  // namespace shard8::test

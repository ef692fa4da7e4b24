// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace shard8::test {

/// What users do.
enum class Operation : std::uint8_t {
  run,           ///< to the end, often to a later one than before
  stop,          ///< run.stop_after
  signal,        ///< SIGTERM or SIGUSR1 at a random moment
  kill,          ///< SIGKILL of one rank or all at a random moment
  again,         ///< the last command, unchanged
  fork,          ///< from an older step
  fork_changed,  ///< with other keys and allow_changes
  edit,          ///< keys that may change
  edit_refused,  ///< keys that may not, or not without allow_changes
  append,        ///< to the data
  move,          ///< an equal copy of the data has another name
  other_data,    ///< other data of the same name or length
  mesh,          ///< another one
  folder,        ///< another output.dir or checkpoint.dir
  two_output,    ///< a second run in the same output.dir while the first one lives
  two_ckpt,      ///< the same, but only checkpoint.dir is the same
  prune,         ///< removes a checkpoint by hand
  damage,        ///< cuts a shard file, or removes a manifest
  verify,        ///< with a limit or a gold file that passes or fails
  none,          ///< checkpoint.restart=none
  replace,       ///< output.replace=true
  requeue,       ///< the last command, as the batch system starts it again
};
inline constexpr std::size_t kOperations = 22;

std::string_view name_of(Operation operation);

/// A sequence, as drawn.
struct Drawn {
  std::vector<Operation> operations;
  bool begins_with_stop = false;  ///< the first operation is one more, which gives the others something to work on
};

/// The sequences 0 to count - 1 of a seed. The operations of a sequence, but the one more, are a piece of a closed path
/// through all ordered pairs of operations; the next piece begins with the last operation of the one before. So about
/// 50 sequences in a row have every ordered pair. A sequence has 8 to 14 operations.
std::vector<Drawn> draw_sequences(std::uint64_t seed, std::int64_t count);

/// How often each ordered pair occurs: first operation, second operation.
using PairCounts = std::array<std::array<std::int64_t, kOperations>, kOperations>;
void count_pairs(PairCounts& counts, const std::vector<Operation>& operations);

}  // namespace shard8::test

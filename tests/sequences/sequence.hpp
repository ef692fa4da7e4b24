// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sequences/site.hpp"

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
  two_ckpt,      ///< a second run in the same checkpoint.dir, with another output.dir
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

/// One sequence: operations in a folder, each checked.
class Sequence {
 public:
  /// `chosen` are indices into the drawn operations: what an operation does depends on its index and on the state in
  /// which it meets the folder.
  Sequence(std::filesystem::path folder, References& references, std::uint64_t seed, std::int64_t number,
           const Drawn& drawn, std::vector<std::size_t> chosen);

  /// Throws Broken, or another exception where the test itself cannot go on. Then the folder stays.
  void run();

  /// The index of the operation that is under way, or that failed.
  std::size_t at() const { return at_; }
  std::int64_t runs() const { return runs_; }
  const Site& site() const { return site_; }

 private:
  struct Chosen {
    std::string folder;
    std::int64_t step = 0;
  };

  void perform(Operation operation, Draw& draw);
  Outcome give(Command command);
  void interrupt(Draw& draw, int signal);
  void fork(Draw& draw, bool changed);
  void edit(Draw& draw);
  void edit_refused(Draw& draw);
  void change_data(Draw& draw, bool append);
  void move_data(Draw& draw);
  void other_mesh(Draw& draw);
  void other_folder(Draw& draw);
  void two(Draw& draw, bool same_output);
  void spoil(Draw& draw, bool remove);
  void verify(Draw& draw);
  void none(Draw& draw);
  void replace(Draw& draw);

  /// Raises run.steps so that a leg has at least so many steps, as far as kMostSteps allows.
  void make_room(std::int64_t steps);
  std::string new_output();
  std::string new_name(const std::string& begin);
  std::optional<Chosen> choose_checkpoint(Draw& draw, bool older) const;
  void use_keys_of(const Checkpoint& checkpoint, Deck& deck) const;

  std::uint64_t seed_;
  std::int64_t number_;
  Drawn drawn_;
  std::vector<std::size_t> chosen_;
  Site site_;
  Command current_;              ///< what the user's deck says now
  std::optional<Command> last_;  ///< the last command that was given
  int names_ = 1;
  std::size_t at_ = 0;
  std::int64_t runs_ = 0;
};

}  // namespace shard8::test

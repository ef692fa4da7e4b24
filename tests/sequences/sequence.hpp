// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/sequences/operations.hpp"
#include "tests/sequences/site.hpp"

namespace shard8::test {

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

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/random/draw.hpp"
#include "tests/restart/program.hpp"
#include "tests/sequences/settle.hpp"

namespace shard8::test {

/// What a run meets before its end.
struct Blow {
  /// The run begins, its lock is there, output.dir is its own, it begins to write a checkpoint, a step is done.
  enum class When { time, lock, owner, write, line };
  When when = When::time;
  double delay_s = 0;  ///< after that
  int signal = 0;
  bool all = true;          ///< all ranks, else one
  std::uint64_t which = 0;  ///< the one
};

/// A folder in which a user works. Every command is checked when it has ended: Broken says what does not hold.
class Site {
 public:
  /// `folder` is made anew.
  Site(std::filesystem::path folder, BaseDeck base, References& references);

  World& world() { return world_; }
  const BaseDeck& base() const { return base_; }
  const std::filesystem::path& folder() const { return folder_; }
  /// What was done so far, as commands of a shell.
  const std::vector<std::string>& shell() const { return shell_; }

  /// What must come of a command that is given now.
  Outcome expect(Command command) const;
  /// A command; then all must be as `expect` says. Returns that.
  Outcome run(Command command);
  /// Whether a run was killed while it moved files to replaced_N. The next start in its folders moves the rest.
  bool has_pending_move() const { return pending_.has_value(); }
  /// The same, with a signal on the way.
  Outcome interrupt(Command command, const Blow& blow);
  /// While the first run lives, the second command is given twice, and refused each time.
  Outcome run_two(Command first, Command second);

  /// Makes verify.gold for a command, with a wrong loss in one step if `wrong` is not negative.
  void write_gold(Command& command, std::int64_t wrong);
  void write_text(const std::string& file, const Content& content);
  void append_text(const std::string& file);
  void copy_text(const std::string& from, const std::string& to);
  void remove_text(const std::string& file);
  void remove_checkpoint(const std::string& folder, std::int64_t step);
  /// Cuts the last byte off a shard file.
  void cut_shard(const std::string& folder, std::int64_t step);
  void remove_manifest(const std::string& folder, std::int64_t step);

 private:
  ProgramOptions options(const Command& command) const;
  void say(const Command& command, const Outcome& outcome, const std::string& around = "");
  void settle(const Command& command, const Outcome& outcome, const RunEnd& end, const Digests& before);
  void check_refusal(const Outcome& outcome, const ProgramEnd& end, const Digests& before, bool may_change) const;
  bool finishes_move(const Command& command) const;
  void check_pending(const Command& command, bool was_killed);
  void refresh_digest(const std::string& folder, std::int64_t step);
  std::string file_of_digest(const std::string& folder, std::int64_t step) const;
  bool wait_for(ProgramRun& run, const Command& command, const Blow& blow) const;

  std::filesystem::path folder_;
  BaseDeck base_;
  References& references_;
  World world_;
  std::vector<std::string> shell_;
  std::optional<PendingMove> pending_;
};

}  // namespace shard8::test

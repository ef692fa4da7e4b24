// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/sequences/seen.hpp"
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

/// The losses that trainings must have: those of runs in folders of their own which nothing interrupts. They are
/// computed when they are first asked for, and kept. Any thread may call the functions.
class References {
 public:
  explicit References(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Losses by step, kMostSteps of them. Where the lineage has several segments, each is a run of its own that goes on
  /// from a checkpoint of the one before. Throws std::runtime_error when a run fails.
  std::vector<double> losses(const BaseDeck& base, const std::vector<Segment>& lineage, const Mesh& mesh);

  int runs() const { return runs_; }

 private:
  struct Entry {
    std::mutex mutex;
    bool done = false;
    std::filesystem::path folder;
    std::vector<double> losses;
  };
  std::shared_ptr<Entry> entry(const std::string& key);
  /// A run of `lineage` that ends after `end` steps; with a checkpoint there if that is not kMostSteps.
  std::shared_ptr<Entry> run(const BaseDeck& base, const std::vector<Segment>& lineage, const Mesh& mesh,
                             std::int64_t end);

  std::filesystem::path folder_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>> entries_;
  int runs_ = 0;
};

/// What must hold after an operation does not.
class Broken : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// How a run ended that was not refused.
struct RunEnd {
  enum class How { by_itself, signalled, killed };
  How how = How::by_itself;
  int code = 0;
  std::string output;
};

/// Files that a killed run was moving to replaced_N; the next start in these folders moves the rest.
struct PendingMove {
  std::string output, folder;
  std::set<std::string> digests;  ///< of the files' contents
};

/// Compares what lies in a folder with what must lie there after a command, and brings the world up to date.
class Settle {
 public:
  struct Place {
    std::filesystem::path folder;  ///< of the sequence; all names are relative to it
    const BaseDeck& base;
    References& references;
  };
  /// `before` are the digests before the command.
  Settle(const Place& place, World& world, const Command& command, const Outcome& outcome, const Digests& before)
      : place_(place), world_(world), command_(command), outcome_(outcome), before_(before) {}

  /// Throws Broken. Returns files that are still to be moved, which only a killed run leaves.
  std::set<std::string> after_run(const RunEnd& end);

 private:
  [[noreturn]] void broken(const std::string& what) const;
  bool started(const RunEnd& end);
  void leave_out_unmoved();
  void take_over(bool ran);
  bool check_move(const RunEnd& end, std::set<std::string>& left) const;
  void check_others() const;
  std::int64_t check_end(const RunEnd& end) const;
  bool verifies() const;
  void check_summary() const;
  void check_said(const std::string& output) const;
  void check_earlier_summaries() const;
  void check_lines(const RunEnd& end, std::int64_t last);
  void check_line(const SeenLine& line, const OneMesh& mesh);
  void check_checkpoints(const RunEnd& end, std::int64_t last);
  void check_manifest(std::int64_t step, const SeenCheckpoint& seen) const;
  void check_files(const RunEnd& end);
  const std::vector<double>& losses(const Mesh& mesh);
  OneMesh mesh_of_leg() const;
  std::vector<std::int64_t> writes(std::int64_t last) const;
  bool trains() const { return outcome_.first < command_.deck.steps; }
  Training& training() { return world_.trainings[static_cast<std::size_t>(index_)]; }
  const Training& training() const { return world_.trainings[static_cast<std::size_t>(index_)]; }

  Place place_;
  World& world_;
  const Command& command_;
  const Outcome& outcome_;
  const Digests& before_;
  Digests after_;
  SeenOutput output_;
  SeenFolder folder_;
  int index_ = -1;  ///< of the training
  std::map<Mesh, std::vector<double>> losses_;
};

}  // namespace shard8::test

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <set>
#include <stdexcept>
#include <string>

#include "tests/sequences/references.hpp"
#include "tests/sequences/rules.hpp"
#include "tests/sequences/seen.hpp"

namespace shard8::test {

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

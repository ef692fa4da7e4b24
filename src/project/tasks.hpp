// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "project/projection.hpp"

namespace shard8::project {

/// Makes tasks of the recorded operations of one step, with their times on a machine.
class TaskList {
 public:
  /// `times` must outlive the object. What computes takes `slowest` times as long, and what the host issues `issue`
  /// times as long. Ranks come to a collective that nothing hides `spread` times as unevenly as spread.calls says.
  TaskList(const train::Setup& setup, const machine::Times& times, double slowest, double issue, double spread = 0);

  /// The next operation of the step. The operation's waits are numbers of operations in the order of add().
  void add(const operation::Operation& operation);
  /// Operations::ahead of the step.
  void set_ahead(std::vector<int> ahead) { step_.ahead = std::move(ahead); }

  const Step& step() const { return step_; }
  const std::array<double, machine::kKnown>& known_s() const { return known_s_; }
  std::vector<Uncertain> uncertain() const;
  /// The collectives by kind, timed as simulated.
  std::vector<Traffic> traffic(const Simulated& simulated) const;

 private:
  void add_computation(const operation::Operation& operation, Task& task);
  void add_collective(const operation::Operation& operation, const operation::Collective& collective, Task& task);
  double issue_s(const machine::Figure& issue) const;
  Queue queue_of(operation::Stream stream, operation::Group group);
  machine::Estimate estimate(const operation::Operation& operation);

  const machine::Times& times_;
  const train::Setup& setup_;
  double slowest_, issue_, spread_;
  int node_ranks_;
  Step step_;
  std::map<std::string, machine::Estimate> estimates_;  ///< by what the operation computes
  std::array<double, machine::kKnown> known_s_{};
  std::map<std::string, Uncertain> uncertain_;
  struct Calls {
    int first = 0, count = 0;  ///< the first queue, and the collectives so far
  };
  std::map<std::pair<int, operation::Group>, Calls> queues_;
  std::map<operation::Group, machine::Placement> places_;
  std::vector<std::pair<int, profile::CollectiveKey>> collectives_;

  /// A gather by parts that is under way: products read its parts as they arrive.
  struct Parts {
    int task = -1;
    std::int64_t ranks = 0, own_rows = 0, rows = 0;
  } parts_;
};

}  // namespace shard8::project

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "deck/config.hpp"
#include "machine/machine.hpp"
#include "machine/times.hpp"
#include "project/simulation.hpp"
#include "project/stack.hpp"
#include "train/setup.hpp"

namespace shard8::project {

struct Settings {
  double efficiency = 1;  ///< times of products, attention and kernels are divided by it
  double most_factor = machine::Times::kMostFactor;
  const Structure* structure = nullptr;  ///< of another training stack; null: shard8's own step
  bool worst_routing = false;            ///< of experts: model::ExpertDims::worst
};

/// Constants of a projection that are not known exactly (docs/projection.md, "How sure it is").
struct Case {
  machine::Constants constants{};
  double slow_downs = 1;  ///< factor of what slow-downs exceed 1 by
  double spread = 1;      ///< factor of the spread between ranks
};
/// The low, nominal and high case of a projection. Chosen: computation is known to −3 and +5 %, bandwidths to 20 %,
/// latencies and spreads to a factor of 2, slow-downs to their square and root.
Case low_case();
Case nominal_case();
Case high_case();

/// Operations of one kind whose time no entry of the machine file gives, of a step on one rank.
struct Uncertain {
  std::string what;
  machine::Known known{};
  double factor = 1;
  std::int64_t calls = 0;
  double seconds = 0;  ///< of all calls, each alone
};

/// One kind of collectives of a step.
struct Traffic {
  profile::CollectiveKey key{};
  double calls = 0, total_s = 0, exposed_s = 0;
};

/// A projected step.
struct Projection {
  double low_s = 0, nominal_s = 0, high_s = 0;
  bool narrowed = false;       ///< the three cases differ by more than kMostSpread, and low_s and high_s were cut to it
  profile::StepTimes times{};  ///< nominal, of one rank, of a whole step; so are all members below
  double computing_s = 0, slowed_s = 0, host_s = 0, in_flight_s = 0;
  double slowest = 1;  ///< factor by which the slowest rank computes longer than the mean one
  std::array<double, machine::kKnown> known_s{};  ///< seconds of operations, each alone, by how their time was found
  std::vector<Uncertain> uncertain{};             ///< the longest first
  std::vector<Traffic> traffic{};
  double issue_s = 0;                          ///< of the host
  std::vector<machine::NotGiven> not_given{};  ///< of all three cases: what the machine file leaves out

  /// Share of the step in which compute only waited for collectives.
  double exposed() const;
};

/// The most that high_s exceeds low_s by.
inline constexpr double kMostSpread = 1.25;

/// The step of a deck's mesh on a machine. `config` must come from deck::load. One process computes the projection,
/// without MPI. A step of many micro-batches is found from steps of two and three: all between the first and the last
/// are alike. Error(deck) where the machine file does not say enough (machine::Times).
Projection project(const deck::Config& config, const machine::Machine& machine, const Settings& settings);
/// As project(), the nominal case alone: low_s and high_s are nominal_s.
Projection project_nominal(const deck::Config& config, const machine::Machine& machine, const Settings& settings);

/// The step if every token chooses experts of one rank of its expert group, which is then the simulated one.
struct WorstRouting {
  double nominal_s = 0;
  std::int64_t rounds = 0;  ///< of dispatch in a layer
};
/// As project_nominal(). Nothing where routing cannot be uneven between ranks: without experts, with one rank in an
/// expert group, and for moe.routing = balanced.
std::optional<WorstRouting> worst_routing(const deck::Config& config, const machine::Machine& machine,
                                          const Settings& settings);

/// x with Φ(x) = p, Φ the distribution function of the standard normal distribution, for 0 < p < 1, by bisection.
double normal_quantile(double p);

/// The expected largest of n draws from a standard normal distribution, 0 for n = 1. Source: Blom, Statistical
/// Estimates and Transformed Beta-Variables, 1958: the quantile of (n − 0.375)/(n + 0.25).
double expected_largest(std::int64_t n);

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

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/bench.hpp"
#include "bench/calibrate_import.hpp"
#include "comm/communicator.hpp"
#include "machine/machine.hpp"
#include "operation/operation.hpp"
#include "profile/trace_recorder.hpp"
#include "train/assembly.hpp"

// What `shard8 calibrate` measures: operations inside the steps of decks, and collectives alone.

namespace shard8::bench {

/// What a row of a machine file's tables products, attention and kernels is about.
struct WorkKey {
  machine::Load load = machine::Load::kernel;
  std::string kernel{};                    ///< name; empty for products and attention
  std::array<std::int64_t, 12> numbers{};  ///< shapes and formats, or the bytes of a kernel

  /// The key of a product, of attention or of a kernel. Products with a bias and with a residual have the same key.
  static WorkKey of(const operation::Operation& operation);
  static WorkKey of(const operation::Product& product);
  static WorkKey of(const operation::Attention& attention);
  operation::Product product() const;
  operation::Attention attention() const;
  auto operator<=>(const WorkKey&) const = default;
};

/// A call that shared less of its time with collectives ran alone. Chosen: it changes a time by less than the noise.
inline constexpr double kAlone = 0.02;

/// How many loads collectives count as: collective, copies and sums, in this order (machine::Load).
inline constexpr int kCollectiveLoads = machine::kLoads - static_cast<int>(machine::Load::collective);
constexpr std::size_t index_of(machine::Load load) {
  return static_cast<std::size_t>(load) - static_cast<std::size_t>(machine::Load::collective);
}
/// The set of one of these loads: bit i of a set stands for the i-th.
constexpr std::size_t set_of(machine::Load load) { return std::size_t{1} << index_of(load); }

/// Shares of a time, by the set of the loads of collectives that were in flight; their sum is 1.
struct InFlight {
  std::array<double, std::size_t{1} << kCollectiveLoads> share{1};

  /// One load for this share of the time, and nothing for the rest.
  static InFlight of(machine::Load load, double share);
  double any() const { return 1 - share[0]; }
};

/// One call of an operation inside a step.
struct TracedCall {
  double seconds = 0;  ///< of the compute stream
  /// What was in flight meanwhile, where copy engines move what collectives inside a node move.
  InFlight in_flight{};
  /// On a device: the host had not issued the next work when the call ended, so `seconds` may be the host's.
  bool held = false;
};

/// One collective of a step.
struct TracedCollective {
  profile::Collective op{};
  int nodes = 0, ranks = 0;  ///< of its group; ranks on each node. 0: nodes of the group have different numbers
  std::uint64_t bytes = 0;   ///< of the whole
  double seconds = 0;        ///< from its begin to its end
  double shared = 0;         ///< the share of them in which products, attention or kernels ran
  /// As seconds and shared, where each moment counts 1/n if n calls are in flight over links of the same kind (in a
  /// node, or between nodes): what the call took of a link that it shared.
  double link_s = 0, link_shared = 0;
  bool operator==(const TracedCollective&) const = default;
};

/// The traced steps of one rank.
struct RankTimes {
  std::map<WorkKey, std::vector<TracedCall>> work;
  std::vector<TracedCollective> collectives;   ///< in the order in which they were issued
  std::vector<double> computed_s;              ///< of each step: all products, attention and kernels
  std::vector<double> besides_s;               ///< of each step: neither these nor waits for collectives
  std::vector<double> total_s;                 ///< of each step
  std::array<std::vector<double>, 3> issue_s;  ///< on devices: host's seconds to issue a product, attention, a kernel
  std::int64_t left_out = 0;                   ///< steps whose spans are not those of the recorded operations
};

/// Joins the spans of a trace with the operations of the steps, which are alike: each product, attention and kernel of
/// `step` has one part of the compute stream, and parts come in the order of the operations. A step whose parts differ
/// in number, name or shape is left out; in a model `with_experts` the tokens of experts' products may differ.
/// Collectives are those that began between the begin of the first step and the end of the last. `groups` has nodes and
/// ranks on each node of the groups by their names.
RankTimes times_of(const profile::TraceRecorder& trace, const operation::Operations& step, bool on_device,
                   const std::map<std::string, std::array<int, 2>>& groups, bool with_experts = false);

/// The traced steps of one deck, over the ranks of a job.
struct DeckTimes {
  std::string deck;              ///< the deck's name
  std::vector<RankTimes> ranks;  ///< by rank; the calls of a key are at most kMostCalls a rank
  std::int64_t warmup_steps = 0;
  double warmup_s = 0;  ///< of these steps
  static constexpr std::size_t kMostCalls = 256;
};

/// How long the steps of one deck may take.
struct StepBudget {
  double warmup_s = 0;            ///< steps are trained for so long before steps are traced, two steps at least
  double seconds = 60;            ///< for all steps, if three traced steps fit
  std::int64_t most_traced = 20;  ///< steps
};

/// A remark if decks were trained for less than `wanted_s` seconds before their steps were timed: which one the
/// shortest, and that `minutes` of calibration were too few. A device at its power limit slows down over the first
/// seconds.
std::optional<std::string> short_warmup(std::span<const DeckTimes> decks, double wanted_s, double minutes);

/// The deck whose steps are timed: synthetic data, no files, a run that does not end.
deck::Config calibration_deck(deck::Config config);

/// Trains steps of `assembly`, which has a calibration_deck() and has started, and traces the last of them. `log` is
/// that of its communicators. Collective; the result is on rank 0. Error(failed) if not one traced step has the parts
/// of the recorded operations.
DeckTimes time_steps(train::Assembly& assembly, profile::CollectiveLog& log, const std::string& name,
                     const StepBudget& budget);

/// A factor by which something takes longer, from `calls` calls during which something else ran.
struct Slowdown {
  double factor = 1;
  std::int64_t calls = 0;
};

/// A factor for each load of collectives; 1 where a load has none.
using Factors = std::array<double, kCollectiveLoads>;
using Slowdowns = std::array<std::optional<Slowdown>, kCollectiveLoads>;
Factors factors_of(const Slowdowns& slowdowns);

/// A call of which it is known how long it takes alone.
struct SharedCall {
  double alone_s = 0, seconds = 0;
  InFlight in_flight{};
  /// What the call would take alone if the loads slow it down by these factors.
  double without(const Factors& factors) const;
};
/// A load's factor is fitted to so many calls at least. Chosen: six calls of attention gave 0.93 while gathers ran on
/// two H100, where hundreds of products gave 1.1.
inline constexpr std::int64_t kEnoughBeside = 10;
/// One factor for each load, by least squares: a call does 1/factor of its work a second while the load is in flight,
/// and the product of these while several are, as in a simulation (project::simulate). A load has a factor if at least
/// kEnoughBeside calls had it alone in flight for a share of kAlone or more. Calls that are farther from the fit than
/// `farthest` times the median distance are left out. Returns nothing for a load whose factor is not between 0.5 and
/// 10.
Slowdowns fit_slowdowns(std::vector<SharedCall> calls, double farthest = 3);

/// The factors by which work of this kind takes longer while collectives are in flight: fit_slowdowns() of the calls
/// that ran while a collective was in flight. The time alone is the median of the calls of the same key that ran alone;
/// on hosts their mean. `copies`: copy engines move what collectives inside a node move; otherwise all collectives are
/// one load.
Slowdowns slowdowns_of(std::span<const DeckTimes> decks, machine::Load load, bool on_device, bool copies);

/// Adds what the decks tell to `to`, with this source: times of products, attention and kernels, slow-downs, spread,
/// times to issue, and collectives that ran alone in a step. A key's time is the mean over calls, steps, ranks and
/// decks of the calls that ran alone; without such calls, of the others, each less what its slow-downs make of its
/// shares. Whether copy engines move bytes in a node (`copies_in_node`) must be set. Returns remarks, lines for the
/// user: what was left out or is an upper bound.
std::vector<std::string> add_work(machine::Machine& to, std::span<const DeckTimes> decks, bool on_device, int source);

/// Times all kinds of collectives of a group with wholes of so many bytes, `repetitions` calls in a row. Collective.
using GroupTimer = std::function<std::vector<CollectiveFigures>(const comm::Communicator& group, std::uint64_t bytes,
                                                                int repetitions)>;

/// Times collectives from 4 KiB to `most` bytes, in groups of 2, 3, … ranks of a node and, if the ranks are on several
/// nodes, in groups over 2, 3, … nodes. The group of all comes first, then those of a power of two. Each group may take
/// an equal part of the time that is left until `deadline`; larger sizes that it has no time for are left out. A size
/// whose time is much longer than the times of the sizes around it let expect is timed again, and its shorter time
/// counts. If nodes have different numbers of ranks, the smallest number counts for all. Collective over `world`. A
/// rank gets the times of the groups that it is in; rank 0 is in all. With one rank there are none.
std::vector<machine::CollectiveTime> time_collectives(const comm::Communicator& world, const GroupTimer& time,
                                                      std::uint64_t most,
                                                      std::chrono::steady_clock::time_point deadline);

/// Adds collectives and what follows from them: node.bandwidth and node.latency from all-gathers in the node;
/// network.bandwidth, latency and latency_rank by least squares over those of several nodes, for `rails` ports of a
/// node. Entries that contradict each other, a larger collective that takes less than half the time of a smaller one,
/// are left out, the slower one. Then, from the decks, the factor by which collectives take longer while something is
/// computed. Returns remarks.
std::vector<std::string> add_collectives(machine::Machine& to, std::vector<machine::CollectiveTime> collectives,
                                         std::span<const DeckTimes> decks, int rails, int source);

/// Rounds times, rates and factors to five digits, as files have them.
void round_times(machine::Machine& m);

/// Adds the rows with a source of kind imported, which names the file, but for those whose keys are there, and for
/// collectives that contradict those that are there. Returns remarks: what was left out for this.
std::vector<std::string> add_imported(machine::Machine& to, const ImportedRows& imported);

/// Adds everything of `base` that `to` has not, with its sources: figures, and rows of tables by their keys. A node of
/// devices has the base's devices and cores if these are more devices. Returns remarks as add_imported().
std::vector<std::string> add_base(machine::Machine& to, const machine::Machine& base);

/// Kernels of the name "any": the sum of two bf16 matrices, by bytes, from 64 KiB to `most`, each four times the one
/// before. Takes `most` bytes of the execution space's memory. Error(environment) when they cannot be had.
std::vector<machine::KernelTime> time_memory(const tensor::Exec& exec, std::uint64_t most);

}  // namespace shard8::bench

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "machine/machine.hpp"
#include "profile/step_times.hpp"

namespace shard8::project {

/// A queue of work: 0 is the compute stream, each other one has collectives of one group on one stream. A device has
/// them in one queue. On hosts a collective begins when it is issued, whether or not the one before it has ended: its
/// group has kAtOnce queues on each stream, which take turns.
using Queue = std::uint8_t;
inline constexpr Queue kCompute = 0;
inline constexpr int kMostQueues = 64;
inline constexpr int kAtOnce = 4;  ///< chosen: a step has rarely more collectives of one group and stream under way

/// Which bytes a collective moves: those of memory and links inside a node, or those of the network's rails.
enum class Link : std::uint8_t { none, node, network };
inline constexpr int kLinks = 3;

/// What the compute stream's waits for a collective count as.
enum class Waiting : std::uint8_t { gather, reduction, exchange };

/// One operation to be simulated.
struct Task {
  double seconds = 0;  ///< alone
  double issue_s = 0;  ///< of the host
  Queue queue = kCompute;
  machine::Load load = machine::Load::kernel;
  Link link = Link::none;
  float demand = 0;  ///< share of `seconds` in which a collective is bound by the link's bandwidth
  profile::Phase phase = profile::Phase::other;
  std::int8_t part = -1;                        ///< profile::Part; -1: none, or outside of forward and backward
  Waiting waiting = Waiting::gather;            ///< of a collective
  std::uint8_t exchange = profile::kExchanges;  ///< profile::Exchange, if it is known
  int first_wait = 0, waits = 0;                ///< in Step::waits
};

/// A task waits until `share` of the other one is done.
struct Wait {
  int task = 0;  ///< index in the step; −1 − k: entry k of Step::ahead of the step before
  float share = 1;
};

/// The operations of one step, in the order in which they are issued.
struct Step {
  std::vector<Task> tasks;
  std::vector<Wait> waits;
  std::vector<int> ahead;  ///< tasks for which the next step waits
  double issue_s = 0;      ///< of the host, before the first task
};

/// What a simulated step took on one rank, in seconds.
struct Simulated {
  profile::StepTimes times;                   ///< of the compute stream: what it did, and what it waited for
  double computing_s = 0;                     ///< products, attention and kernels
  double slowed_s = 0;                        ///< of these: what collectives that ran at once added
  double host_s = 0;                          ///< in which the compute stream waited for the host
  double in_flight_s = 0;                     ///< in which at least one collective ran
  std::vector<double> task_s{}, exposed_s{};  ///< of each task: how long it ran, and how long compute waited for it
  /// [slow][by]: whether a task of the one kind ran while one of the other kind did, in any of the steps.
  std::array<std::array<bool, machine::kLoads>, machine::kLoads> met{};
};

/// How much longer each kind of work takes while others run: [slow][by].
using SlowDowns = std::array<std::array<double, machine::kLoads>, machine::kLoads>;
/// The slow-downs of the machine file, each to the power of `strength`.
SlowDowns slow_downs(const machine::Machine& machine, double strength = 1);

/// Simulates `repeats` equal steps, one after the other, and returns the last one, which begins with what the step
/// before has gathered for it. A discrete-event simulation of one rank. Each queue works on one task at a time, in
/// order. A task starts when the task before it in its queue is done, the host has issued it, its waits are over and,
/// if it is a collective of a queue other than compute, every compute task that was issued before it is done. Tasks
/// that run at once slow each other down, once for each kind of load, and collectives over one link share its
/// bandwidth. The host issues one task after the other, and begins a step when the compute queue has ended the step
/// before.
Simulated simulate(const Step& step, const SlowDowns& slow, int repeats = 3);

}  // namespace shard8::project

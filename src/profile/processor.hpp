// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "profile/spread.hpp"

namespace shard8::profile {

/// A set of the CPUs of a node, which have the numbers 0 to 16383. Bit b of words[w] is set if CPU 64·w + b is in it.
struct CpuSet {
  std::array<std::uint64_t, 256> words{};

  bool contains(std::size_t cpu) const { return cpu < 64 * words.size() && (words[cpu / 64] >> cpu % 64 & 1) != 0; }
  void add(const CpuSet& other);
  /// The numbers of the CPUs, ascending.
  std::vector<int> numbers() const;
};

/// The CPUs that a thread may use (sched_getaffinity); 0: the calling thread. Empty if the system does not say.
CpuSet affinity(pid_t thread = 0);

/// Identifies the running system of this node: /proc/sys/kernel/random/boot_id. Empty if it cannot be read.
std::string node_identity();

/// How long a fixed piece of work takes on the core of the calling thread. The neighbour of a hyperthread (another
/// machine of the hypervisor, for instance) and a low clock slow a core, and no time that the system counts shows it.
class CoreSpeed {
 public:
  /// Seconds of the parts of the work.
  struct Work {
    double integers_s = 0;  ///< about 2 µs of instructions that are in no need of memory and of each other
    double vectors_s = 0;   ///< about 2 µs of multiplications and additions of fp32 vectors from the first cache
  };
  /// Does both parts of the work, since what shares the core may use one kind of its units only. Measured: something
  /// unseen that made steps 60 % longer doubled the time of vectors and changed that of integers by 4 %.
  static Work work();

  /// Adds a sample: of each part the shorter of two times. Does nothing for kBetween after a sample, so that samples
  /// take about 0.1 % of the time.
  void sample();
  void add(const Work& work);

  std::int64_t samples() const { return samples_; }
  /// The mean and the least time of a part over the samples, in s, added up over both parts. In the mean a sample of a
  /// part counts with at most 4 times the least of that part: a longer one comes from a thread that lost its core, and
  /// tells nothing of the core. 0 without samples.
  double mean_s() const;
  double least_s() const { return least_s_[0] + least_s_[1]; }
  /// By how much the core was slowed: the mean time of a part divided by its least time, less 1, of the part for which
  /// this is larger. 0 without samples.
  double slowed() const;

 private:
  static constexpr std::chrono::milliseconds kBetween{10};

  std::chrono::steady_clock::time_point last_{};
  std::int64_t samples_ = 0;
  std::array<double, 2> sum_s_{}, least_s_{};  ///< by part
};

/// CPUs, and the time that was taken of them since the system started.
struct CpuUse {
  std::string node{};       ///< identifies the running system
  std::vector<int> cpus{};  ///< ascending; none: not known
  /// Seconds in which programs ran, or the system for them, or in which a hypervisor ran other machines (/proc/stat:
  /// user, nice, system, steal), known to 10 ms.
  double busy_s = 0;
};

/// What this process has had of the processor since its start, all threads together.
struct ProcessorUse {
  std::chrono::steady_clock::time_point at{};  ///< when this was read
  double cpu_s = 0;                            ///< seconds on cores (getrusage)
  std::int64_t switches = 0;                   ///< how often a thread lost its core although it had work (getrusage)
  /// Seconds for which a thread had work and no core, of the threads that live now (/proc/self/task/*/schedstat).
  /// Nothing where the kernel does not count.
  std::optional<double> waited_s{};
  CpuUse cpus{};  ///< CPUs that the rank's threads may use
};
ProcessorUse processor_use();

/// The part of a run in which its steps were measured, on one rank.
struct MeasuredUse {
  int threads = 1;  ///< threads that the rank computes with
  /// Whether other programs on the rank's CPUs slow it. A rank that computes on a device leaves its CPUs idle.
  bool on_cpus = true;
  ProcessorUse begin{}, end{};
  CoreSpeed speed{};  ///< of the core of the thread that calls after_step()

  /// Behind each measured step: samples `speed`, unless the rank computes on a device, and reads `end` if this is the
  /// last step. Returns `last`.
  bool after_step(bool last);

  /// CPU time / (threads · wall time). Below 1 where threads sleep, for example while they wait for other ranks.
  double cpu() const;
  double switches_per_s() const;
  /// The share of threads · wall time in which threads had work and no core. Where the kernel does not count it: at
  /// most the time without a core, and at most 4 ms for each involuntary switch. (A thread that loses its core waits
  /// for a slice of another one, 3 to 4 ms in Linux' default schedulers.)
  double without_core() const;
};

/// How the ranks of a run used their processors, each value by rank. On rank 0; empty on others.
struct ProcessorFigures {
  std::vector<double> cpu{}, switches_per_s{}, without_core{};
  /// The share of the time of a rank's CPUs that programs of other jobs took, the system for them, or other machines of
  /// a hypervisor. Equal for ranks of a node that may use the same CPUs. 0 where it is not known.
  std::vector<double> others{};
  /// What CoreSpeed found on the rank's core: mean_s() and slowed(). 0 where they are not known. Ranks that compute on
  /// devices have none.
  std::vector<double> work_s{}, slowed{};

  /// The rank that was longest without a core, the lowest of several.
  int worst_rank() const;
  /// The rank on whose CPUs other programs computed most, the lowest of several.
  int most_shared_rank() const;
  /// The rank whose core was slowed most, the lowest of several.
  int most_slowed_rank() const;
  /// Whether a rank was clearly kept from computing (kWithoutCore), or shared its CPUs (kOthers). Threads that sleep
  /// because they have nothing to do do not count, so a small CPU time alone is no sign.
  bool busy() const;
};

/// A rank with a larger share of its time without a core was kept from computing. Chosen: all ranks wait for the
/// slowest one in every step, and 5 % is the difference at which `compare` calls a run worse.
inline constexpr double kWithoutCore = 0.05;
/// Other programs with a larger share of a rank's CPUs may slow the rank even if it always has a core, because they
/// share hyperthreads, caches and memory with it. Chosen: more than a node's daemons take. Measured: equal runs while
/// other programs ran on two CPUs, whose ranks were without a core for less than 1 % of their time, differed by up to
/// 10 % (docs/results/tests.json, equal_runs). That the shared caches were the cause was not measured.
inline constexpr double kOthers = 0.02;

ProcessorFigures processor_over_ranks(const MeasuredUse& mine, const Gather& gather);

/// The lines of the report, busy_text() among them. `hosts` by rank.
std::string to_text(const ProcessorFigures& figures, const std::vector<std::string>& hosts);
/// The text of a warning that the machine was busy, and how, without a line feed; empty unless figures.busy().
std::string busy_text(const ProcessorFigures& figures, const std::vector<std::string>& hosts);

}  // namespace shard8::profile

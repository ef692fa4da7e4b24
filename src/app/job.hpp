// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "app/commands.hpp"
#include "comm/communicator.hpp"
#include "comm/environment.hpp"
#include "comm/node.hpp"
#include "deck/config.hpp"
#include "deck/load.hpp"
#include "profile/collective_log.hpp"
#include "tensor/runtime.hpp"
#include "train/checkpoints.hpp"

namespace shard8::app {

class StopRequests;

/// What a rank has once ranks, deck and devices are checked and Kokkos runs. If the program was built for devices, each
/// rank has a device of its own, or shares one where the deck allows it. The references are valid until the body of
/// run_job() returns.
struct Job {
  comm::Node node;
  const deck::LoadResult& deck;
  profile::CollectiveLog& log;
  comm::Communicator world;  ///< the body may move it out
  const tensor::Runtime& runtime;
};

/// Starts MPI, reads the deck on rank 0, checks the deck, the number of ranks and the devices on every rank, starts
/// Kokkos, and calls `body` on every rank. Returns what `body` returns, which is the process's exit code. An error that
/// all ranks agreed on is printed and its exit code returned; any other error ends the job (comm::run_guarded). A
/// second of the `requests` ends the job, too; null: signals do what they did before.
int run_job(int argc, char** argv, const DeckArguments& arguments, const std::function<int(Job&)>& body,
            StopRequests* requests = nullptr);

/// Reads another deck for the ranks of a job, on rank 0, and checks it and the number of ranks on every rank. Rank 0
/// prints the warnings. Collective. Throws the AgreedErrors that run_job() prints.
deck::LoadResult load_deck(const comm::Communicator& world, const DeckArguments& arguments);

/// The machine on which a job runs, for files of figures: "Intel Xeon, 8 cores a node, 2 threads a rank" or "4 x NVIDIA
/// H200".
std::string machine_of(const Job& job);

/// How this program was built: type of the build, compiler, -march and sanitizers.
std::string build_text();
/// This program, as measurements record it: version, commit and build_text().
std::string program_text();

/// What a checkpoint's manifest says of this program and its deck.
train::RunDescription describe_run(const deck::LoadResult& deck);

/// Replaces optimizer.decay_steps wherever it is kept, so that the header, the report and later checkpoints have the
/// value with which this run trains.
void set_decay_steps(deck::LoadResult& deck, train::RunDescription& run, std::int64_t steps);

/// What limits the host memory of this process, in bytes.
struct MemoryLimits {
  std::uint64_t total = 0;      ///< of the machine, with swap; 0: unknown
  std::uint64_t available = 0;  ///< of the machine, without swap: what new processes can have now
  /// The control group with the smallest limit among those that this process is in.
  struct Group {
    std::string file;             ///< the file that holds the limit
    std::uint64_t limit = 0;      ///< most bytes of memory
    std::uint64_t with_swap = 0;  ///< most bytes of memory and swap together
    std::uint64_t id = 0;         ///< equal for processes of a machine that are in one group; never 0
  };
  std::optional<Group> group{};
};

/// Reads proc/meminfo, proc/self/cgroup and sys/fs/cgroup (versions 1 and 2) below `root`. What cannot be read is no
/// limit.
MemoryLimits read_memory_limits(const std::string& root = "/");

/// Whether the ranks of a node fit into its memory.
struct MemoryVerdict {
  std::string refusal{};  ///< why they cannot; empty: they can
  std::string warning{};  ///< why they may not; empty: they do
};
/// What takes memory, for messages.
struct MemoryUse {
  std::string what;    ///< "training"
  std::string origin;  ///< of the bytes: "see shard8 plan"
  std::string remedy;
};
MemoryUse training_use();

/// `rank_bytes` is what a rank needs at least. `ranks` share the machine and `group_ranks` of them the control group.
MemoryVerdict judge_memory(std::uint64_t rank_bytes, int ranks, int group_ranks, const MemoryLimits& limits,
                           const MemoryUse& use = training_use());

/// Compares what ranks need with the memory of every node. `rank_bytes` returns what this rank needs. Rank 0 warns of a
/// node on which it may not fit. AgreedError(environment) where it cannot fit. Collective.
void require_memory(const comm::Communicator& world, const comm::Node& node,
                    const std::function<std::uint64_t()>& rank_bytes, const MemoryUse& use);
/// Compares the plan of a deck's training with the memory of every node, as require_memory() above. Does nothing on
/// devices.
void require_memory(const comm::Communicator& world, const comm::Node& node, const deck::Config& config, int threads);

/// Compares the plan of one rank with the memory of this machine, for `check`. Returns a warning, or an empty text. The
/// result is no refusal, since the run may be meant for another machine.
std::string memory_warning(const deck::Config& config, int threads);

}  // namespace shard8::app

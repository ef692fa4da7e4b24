// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/job.hpp"

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdio>

#include "app/commands.hpp"
#include "app/device.hpp"
#include "app/node_memory.hpp"
#include "app/process.hpp"
#include "app/refusals.hpp"
#include "app/stop.hpp"
#include "base/text.hpp"
#include "base/utc.hpp"
#include "base/version.hpp"
#include "comm/agree.hpp"
#include "comm/launch.hpp"
#include "deck/choices.hpp"
#include "deck/device.hpp"
#include "train/conditions.hpp"
#include "train/training_file.hpp"

namespace shard8::app {

namespace {

/// Rank 0 reads the deck, and every rank checks it. Rank 0 prints the warnings.
deck::LoadResult load_everywhere(const comm::Communicator& world, const DeckArguments& arguments) {
  std::string text;
  comm::agree_on_root(world, 0, [&] { text = deck::read_deck_file(arguments.path); });
  world.broadcast(text, 0);
  deck::LoadResult deck;
  comm::agree(world, [&] {
    deck = deck::load_text(text, arguments.path, arguments.overrides, world.size(), train::has_used_restart);
    check_methods(arguments.path, deck);
    if (arguments.check) arguments.check(deck);
  });
  if (world.rank() == 0) print_warnings(deck);
  return deck;
}

void check_ranks(const comm::Communicator& world, const deck::MeshConfig& mesh) {
  if (world.size() == mesh.ranks()) return;
  throw comm::AgreedError(base::ExitCode::environment,
                          fmt::format("the deck's mesh has {} ({}), but {} {} started: run it under "
                                      "mpiexec -n {} or srun -n {}, or change the mesh group{}",
                                      base::count(mesh.ranks(), "rank", "ranks"), named_text_of(mesh.extents(), " × "),
                                      world.size(), world.size() == 1 ? "was" : "were", mesh.ranks(), mesh.ranks(),
                                      comm::launcher_hint(comm::process_variables(), world.size())),
                          world.size());
}

/// The control group that limits this process's memory; 0: none does.
std::uint64_t memory_group() {
  const MemoryLimits limits = read_memory_limits();
  return limits.group ? limits.group->id : 0;
}

/// choose_threads(). AgreedError(environment): the cores and the limits of threads may differ between ranks.
/// Collective.
int agreed_threads(const comm::Environment& environment, const comm::Node& node) {
  // How ranks wait follows from the number of threads, which is not known yet.
  const comm::Communicator ranks(environment.world(), "start", comm::Waiting::yield, nullptr, &environment.waits());
  int threads = 0;
  comm::agree(ranks, [&] { threads = choose_threads(node); });
  return threads;
}

}  // namespace

int run_job(int argc, char** argv, const DeckArguments& arguments, const std::function<int(Job&)>& body,
            StopRequests* requests) {
  std::signal(SIGXFSZ, SIG_IGN);  // at the limit of a file's size (ulimit -f) a write fails, and ends no process
  comm::Environment environment(argc, argv, MPI_COMM_WORLD);
  if (requests != nullptr) requests->begin_job(environment);
  const int code = comm::run_guarded(environment, [&] {
    const comm::Node node = comm::survey_node(environment.world(), &environment.waits(), memory_group());
    const int threads = agreed_threads(environment, node);
    profile::CollectiveLog log;
    // A rank that spins while it waits takes a core from the threads of other ranks.
    const comm::Waiting waiting = comm::choose_waiting(node.ranks * threads, node.cores);
    comm::Communicator world(environment.world(), "world", waiting, &log, &environment.waits());
    deck::LoadResult deck;
    at_stage(Stage::deck, [&] { deck = load_everywhere(world, arguments); });
    const auto limits = comm::HangLimits::of(std::chrono::seconds(deck.config.run.hang_limit_s));
    environment.set_hang_limits(limits);
    at_stage(Stage::ranks, [&] { check_ranks(world, deck.config.mesh); });
    int device = 0;
    at_stage(Stage::device, [&] { device = choose_device(world, deck.config, node); });
    const tensor::Runtime runtime({.threads = threads, .device = device});
    // Before any other call that waits for a rank: one whose pools differ may hang in its first product.
    at_stage(Stage::device, [&] {
      comm::agree(world, [&] {
        if (!deck::on_device(deck.config.mesh) && !deck::carried_by_hosts(deck.config.run))
          require_pools(threads, runtime.threads());
      });
    });
    attach_device(world, runtime.exec(), environment, limits, deck.config.mesh.share_devices);
    if (arguments.trains) at_stage(Stage::memory, [&] { require_memory(world, node, deck.config, runtime.threads()); });
    Job job{node, deck, log, std::move(world), runtime};
    return body(job);
  });
  std::fflush(stdout);  // who kills this process in MPI_Finalize finds its report
  if (requests != nullptr) requests->end_job();
  environment.leave_with(code, [requests] {
    if (requests != nullptr) requests->leave_launcher();
  });
  return code;
}

deck::LoadResult load_deck(const comm::Communicator& world, const DeckArguments& arguments) {
  deck::LoadResult deck = load_everywhere(world, arguments);
  check_ranks(world, deck.config.mesh);
  return deck;
}

std::string machine_of(const Job& job) {
  if (job.world.device() != nullptr) return fmt::format("{} x {}", job.world.size(), train::machine_name());
  return fmt::format("{}, {} a node, {} a rank", train::machine_name(), base::count(job.node.cores, "core", "cores"),
                     base::count(job.runtime.threads(), "thread", "threads"));
}

std::string build_text() {
  const base::Version v = base::version();
  return fmt::format("{}, {}, -march={}{}{}", v.build_type, v.compiler, v.march.empty() ? "default" : v.march,
                     v.sanitizers.empty() ? "" : ", sanitizers ", v.sanitizers);
}

std::string program_text() {
  const base::Version v = base::version();
  return fmt::format("{} ({}), {}", v.number, v.git_hash, build_text());
}

train::RunDescription describe_run(const deck::LoadResult& deck) {
  const base::Version v = base::version();
  train::RunDescription run{fmt::format("shard8 {}", v.number), std::string(v.git_hash), {}};
  const SlurmJob job = slurm_job(base::unix_now());
  run.slurm_job = job.id;
  run.requeued = job.requeued;
  for (const deck::Echo& e : deck.echo)
    run.deck.push_back({e.group + "." + e.key, deck::value_text(e), std::string(deck::to_string(e.origin))});
  return run;
}

void set_decay_steps(deck::LoadResult& deck, train::RunDescription& run, std::int64_t steps) {
  deck.config.optimizer.decay_steps = steps;
  for (deck::Echo& e : deck.echo)
    if (e.group == "optimizer" && e.key == "decay_steps") e.value = steps;
  run.deck = describe_run(deck).deck;
}

}  // namespace shard8::app

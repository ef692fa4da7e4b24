// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/job.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>

#include "app/commands.hpp"
#include "app/device.hpp"
#include "app/process.hpp"
#include "app/refusals.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "base/utc.hpp"
#include "base/version.hpp"
#include "comm/agree.hpp"
#include "comm/environment.hpp"
#include "deck/choices.hpp"
#include "deck/device.hpp"
#include "train/algorithms.hpp"
#include "train/plan/plan.hpp"
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
    // Pools are compared before any other call that waits for a rank: a rank whose pools differ may hang in its first
    // product.
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

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();

/// The number in a file; kNone where there is no file or it says "max".
std::uint64_t number_in(const fs::path& file) {
  std::ifstream in(file);
  std::uint64_t number = 0;
  return in >> number ? number : kNone;
}

std::uint64_t sum_of(std::uint64_t a, std::uint64_t b) { return a > kNone - b ? kNone : a + b; }

/// Takes the limit of a group's folder if it is the smallest so far.
void look_at_group(const fs::path& folder, bool version_2, std::uint64_t swap, MemoryLimits& limits) {
  const fs::path file = folder / (version_2 ? "memory.max" : "memory.limit_in_bytes");
  const std::uint64_t limit = number_in(file);
  // Version 1 has a large number where there is no limit.
  if (limit == kNone || (limits.total > 0 && limit >= limits.total)) return;
  if (limits.group && limits.group->limit <= limit) return;
  const std::uint64_t with_swap =
      version_2 ? sum_of(limit, std::min(swap, number_in(folder / "memory.swap.max")))
                : std::min(sum_of(limit, swap), number_in(folder / "memory.memsw.limit_in_bytes"));
  struct stat status {};
  const bool known = ::stat(folder.c_str(), &status) == 0;
  limits.group = {file.string(), limit, with_swap, known ? static_cast<std::uint64_t>(status.st_ino) : 1};
}

/// The group and those above it. A container may see its own group as the root, whatever the path says.
void look_at_groups(const fs::path& mount, fs::path path, bool version_2, std::uint64_t swap, MemoryLimits& limits) {
  for (path = path.relative_path(); !path.empty(); path = path.parent_path())
    look_at_group(mount / path, version_2, swap, limits);
  look_at_group(mount, version_2, swap, limits);
}

std::string gib(std::uint64_t bytes) { return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1ULL << 30)); }

std::uint64_t rank_bytes(const deck::Config& config, int threads) {
  const train::Plan plan = train::make_plan(config, threads);
  return plan.total_bytes() - plan.checkpoint.copies;  // copies are taken as far as they are needed
}

}  // namespace

MemoryLimits read_memory_limits(const std::string& root) {
  MemoryLimits limits;
  auto machine = kilobytes_in(fs::path(root) / "proc/meminfo");
  const std::uint64_t swap = machine["SwapTotal"];
  limits.total = machine["MemTotal"] + swap;
  limits.available = machine["MemAvailable"];
  const fs::path mount = fs::path(root) / "sys/fs/cgroup";
  std::ifstream groups(fs::path(root) / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "4:memory:/a/b" of version 1, "0::/a/b" of version 2
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = ',' + line.substr(first + 1, second - first - 1) + ',';
    const fs::path path = line.substr(second + 1);
    if (controllers == ",,") look_at_groups(mount, path, true, swap, limits);
    if (controllers.find(",memory,") != std::string::npos) look_at_groups(mount / "memory", path, false, swap, limits);
  }
  return limits;
}

MemoryUse training_use() {
  return {"training", "see shard8 plan",
          "use more nodes, more ranks in mesh.shard or mesh.tensor, a smaller data.micro_batch or model.recompute"};
}

MemoryVerdict judge_memory(std::uint64_t rank_bytes, int ranks, int group_ranks, const MemoryLimits& limits,
                           const MemoryUse& use) {
  const auto need = [&](int of) {
    const auto n = static_cast<std::uint64_t>(of);
    return n > 0 && rank_bytes > kNone / n ? kNone : rank_bytes * n;
  };
  const auto text = [&](int of, const std::string& has) {
    return fmt::format("{} takes at least {} of this node's memory, {} rank{} of {} ({}), but {}: {}", use.what,
                       gib(need(of)), of, of == 1 ? "" : "s", gib(rank_bytes), use.origin, has, use.remedy);
  };
  const auto allows = [&](const std::string& what) {
    return fmt::format("{} allows {}{}", limits.group->file, what, ", which is the limit of the job or container");
  };
  const auto& group = limits.group;
  if (group && need(group_ranks) > group->with_swap)
    return {.refusal = text(group_ranks, allows(gib(group->with_swap)))};
  if (limits.total > 0 && need(ranks) > limits.total)
    return {.refusal = text(ranks, fmt::format("the machine has {}, with swap", gib(limits.total)))};
  if (group && need(group_ranks) > group->limit)
    return {.warning = text(group_ranks, allows(gib(group->limit) + " without swap"))};
  if (limits.available > 0 && need(ranks) > limits.available)
    return {.warning = text(ranks, fmt::format("{} are available now (MemAvailable)", gib(limits.available)))};
  return {};
}

void require_memory(const comm::Communicator& world, const comm::Node& node,
                    const std::function<std::uint64_t()>& rank_bytes, const MemoryUse& use) {
  std::string warning;
  comm::agree(world, [&] {
    const auto verdict = judge_memory(rank_bytes(), node.ranks, node.group_ranks, read_memory_limits(), use);
    if (!verdict.refusal.empty()) base::fail(base::ExitCode::environment, "on {}: {}", node.host, verdict.refusal);
    warning = verdict.warning;
  });
  // The lowest of the ranks that have a warning.
  std::array<double, 1> from{warning.empty() ? 0.0 : static_cast<double>(world.size() - world.rank())};
  world.all_reduce(from, comm::Communicator::Reduce::max);
  if (from[0] == 0) return;
  std::string said = fmt::format("on {}: {}", node.host, warning);
  world.broadcast(said, world.size() - static_cast<int>(from[0]));
  if (world.rank() == 0) base::Logger(0, world.size()).warn("{}", said);
}

void require_memory(const comm::Communicator& world, const comm::Node& node, const deck::Config& config, int threads) {
  if (deck::on_device(config.mesh) && !deck::carried_by_hosts(config.run)) return;
  require_memory(
      world, node, [&] { return rank_bytes(config, threads); }, training_use());
}

std::string memory_warning(const deck::Config& config, int threads) {
  if (deck::on_device(config.mesh) && !deck::carried_by_hosts(config.run)) return {};
  const auto verdict = judge_memory(rank_bytes(config, threads), 1, 1, read_memory_limits());
  const std::string& why = verdict.refusal.empty() ? verdict.warning : verdict.refusal;
  return why.empty() ? "" : "on this machine: " + why;
}

}  // namespace shard8::app

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/node_memory.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <limits>

#include "app/process.hpp"
#include "base/log.hpp"
#include "comm/agree.hpp"
#include "deck/device.hpp"
#include "train/plan/plan.hpp"

namespace shard8::app {

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
  // Of the ranks that have one, the lowest.
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

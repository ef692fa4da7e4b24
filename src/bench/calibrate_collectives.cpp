// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "bench/calibrate.hpp"
#include "comm/node.hpp"

namespace shard8::bench {
namespace {

using comm::Communicator;
using machine::CollectiveTime;
using Clock = std::chrono::steady_clock;

/// Ranks of so many nodes, so many on each.
struct Shape {
  int nodes = 1, ranks = 1;
  auto operator<=>(const Shape&) const = default;
};

bool is_power_of_two(int n) { return (n & (n - 1)) == 0; }

/// Powers of two and `most` itself first, then the others, each of them once, ascending.
std::vector<int> counts_up_to(int most) {
  std::vector<int> first, then;
  for (int n = 2; n <= most; ++n) (is_power_of_two(n) || n == most ? first : then).push_back(n);
  first.insert(first.end(), then.begin(), then.end());
  return first;
}

/// Groups to time: of one node, of all nodes with all their ranks, and of one rank a node.
std::vector<Shape> shapes_up_to(int nodes, int ranks) {
  std::vector<Shape> shapes;
  for (const int n : counts_up_to(ranks)) shapes.push_back({1, n});
  for (const int n : counts_up_to(nodes)) {
    shapes.push_back({n, ranks});
    if (ranks > 1) shapes.push_back({n, 1});
  }
  std::stable_sort(shapes.begin(), shapes.end(), [](const Shape& a, const Shape& b) {
    const auto late = [](const Shape& s) { return !is_power_of_two(s.nodes) || !is_power_of_two(s.ranks); };
    return late(a) < late(b);
  });
  return shapes;
}

/// Whether rank 0 finds that this time has come. The same on every rank.
bool is_past(const Communicator& world, Clock::time_point deadline) {
  std::string past = Clock::now() >= deadline ? "1" : "0";
  world.broadcast(past, 0);
  return past == "1";
}

}  // namespace

std::vector<CollectiveTime> time_collectives(const Communicator& world, const GroupTimer& time, std::uint64_t most,
                                             Clock::time_point deadline) {
  std::vector<CollectiveTime> rows;
  if (world.size() == 1) return rows;
  const comm::Placement placement = world.placement();
  std::vector<int> on_node(static_cast<std::size_t>(placement.nodes()));
  int mine = 0;  // my number on my node
  const auto me = static_cast<std::size_t>(world.rank());
  for (std::size_t rank = 0; rank < placement.node_of.size(); ++rank) {
    if (rank == me) mine = on_node[static_cast<std::size_t>(placement.node_of[rank])];
    ++on_node[static_cast<std::size_t>(placement.node_of[rank])];
  }
  const int ranks = *std::min_element(on_node.begin(), on_node.end());
  for (const Shape& shape : shapes_up_to(placement.nodes(), ranks)) {
    if (is_past(world, deadline)) break;
    const bool in = placement.node_of[me] < shape.nodes && mine < shape.ranks;
    const Communicator group = world.split(in ? 0 : 1, world.rank(), "calibrate", {.compute = true});
    double slowest = 0;  // seconds of a call, as rank 0 knows them
    for (std::uint64_t bytes = 4096; bytes <= most; bytes *= 4) {
      // Rank 0 is in every group that is timed. Chosen: at most about a second for each size and kind.
      std::string repetitions = std::to_string(std::clamp(slowest > 0 ? static_cast<int>(0.25 / slowest) : 20, 3, 20));
      world.broadcast(repetitions, 0);
      if (is_past(world, deadline)) break;
      if (!in) continue;
      for (const CollectiveFigures& f : time(group, bytes, std::stoi(repetitions))) {
        CollectiveTime row;
        row.op = f.op;
        row.nodes = shape.nodes;
        row.ranks = shape.ranks;
        row.bytes = f.bytes;
        row.seconds = 1e-6 * f.us;
        rows.push_back(row);
        slowest = std::max(slowest, row.seconds);
      }
    }
  }
  return rows;
}

}  // namespace shard8::bench

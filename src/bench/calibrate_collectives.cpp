// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <sstream>
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

/// The numbers from 2 to `most`, each once: `most` first, since a deck's groups have all ranks or nodes that there are;
/// then powers of two; then the others.
std::vector<int> counts_up_to(int most) {
  std::vector<int> first, then;
  if (most >= 2) first.push_back(most);
  for (int n = 2; n < most; ++n) (is_power_of_two(n) ? first : then).push_back(n);
  first.insert(first.end(), then.begin(), then.end());
  return first;
}

/// The groups that are timed: ranks of one node; all ranks of several nodes; one rank of each of several nodes. Groups
/// of all ranks or nodes, or of a power of two, come before the others.
std::vector<Shape> shapes_up_to(int nodes, int ranks) {
  std::vector<Shape> shapes;
  for (const int n : counts_up_to(ranks)) shapes.push_back({1, n});
  for (const int n : counts_up_to(nodes)) {
    shapes.push_back({n, ranks});
    if (ranks > 1) shapes.push_back({n, 1});
  }
  std::stable_sort(shapes.begin(), shapes.end(), [&](const Shape& a, const Shape& b) {
    const auto late = [&](const Shape& s) {
      return !(is_power_of_two(s.nodes) || s.nodes == nodes) || !(is_power_of_two(s.ranks) || s.ranks == ranks);
    };
    return late(a) < late(b);
  });
  return shapes;
}

/// Whether a time of rank 0 is past its deadline. The answer is the same on every rank.
bool is_past(const Communicator& world, Clock::time_point time, Clock::time_point deadline) {
  std::string past = time >= deadline ? "1" : "0";
  world.broadcast(past, 0);
  return past == "1";
}

constexpr int kRepetitionsAgain = 5;

/// Where the times of a group's collectives of `bytes` stand in the list of rows: `count` rows from `first` on, one for
/// each kind of collective.
struct Size {
  std::uint64_t bytes = 0;
  std::size_t first = 0, count = 0;
};

/// The indices of the sizes that are to be timed again, with blanks between: one of their collectives took much longer
/// than it took with a quarter and with four times the bytes lets expect. Where a call takes a latency and a time for
/// each byte, it takes at most the geometric mean of those two.
std::string disturbed(const std::vector<CollectiveTime>& rows, const std::vector<Size>& sizes) {
  constexpr double kMuch = 1.2;  // chosen: more than single rows differ by from call to call
  std::string found;
  for (std::size_t i = 1; i + 1 < sizes.size(); ++i) {
    bool any = false;
    for (std::size_t k = 0; k < sizes[i].count; ++k) {
      const auto seconds = [&](std::size_t size) { return rows[sizes[size].first + k].seconds; };
      any = any || seconds(i) > kMuch * std::sqrt(seconds(i - 1) * seconds(i + 1));
    }
    if (any) found += std::to_string(i) + " ";
  }
  return found;
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
  const std::vector<Shape> shapes = shapes_up_to(placement.nodes(), ranks);
  for (std::size_t number = 0; number < shapes.size(); ++number) {
    const Shape& shape = shapes[number];
    const Clock::time_point begin = Clock::now();
    if (is_past(world, begin, deadline)) break;
    const Clock::time_point end = begin + (deadline - begin) / static_cast<int>(shapes.size() - number);
    const bool in = placement.node_of[me] < shape.nodes && mine < shape.ranks;
    const Communicator group = world.split(in ? 0 : 1, world.rank(), "calibrate", {.compute = true});
    double slowest = 0, size_s = 0;  // seconds of a call, and of all calls of the last size, as rank 0 knows them
    std::vector<Size> sizes;
    for (std::uint64_t bytes = 4096; bytes <= most; bytes *= 4) {
      // Rank 0 is in every group that is timed. Chosen: at most about a second for each size and kind.
      std::string repetitions = std::to_string(std::clamp(slowest > 0 ? static_cast<int>(0.25 / slowest) : 20, 3, 20));
      world.broadcast(repetitions, 0);
      const Clock::time_point size_begin = Clock::now();
      // A size takes up to four times as long as the one before: it would take the time of other groups.
      const std::chrono::duration<double> next(slowest > 0.1 ? 4 * size_s : 0);
      if (is_past(world, size_begin + std::chrono::duration_cast<Clock::duration>(next), end)) break;
      if (!in) continue;
      sizes.push_back({bytes, rows.size(), 0});
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
      sizes.back().count = rows.size() - sizes.back().first;
      size_s = seconds_since(size_begin);
    }
    std::string again = disturbed(rows, sizes);  // as rank 0 finds it
    world.broadcast(again, 0);
    std::istringstream indices(again);
    for (std::size_t i = 0; indices >> i;) {
      if (is_past(world, Clock::now(), deadline)) break;
      if (!in) continue;
      const std::vector<CollectiveFigures> figures = time(group, sizes[i].bytes, kRepetitionsAgain);
      for (std::size_t k = 0; k < sizes[i].count; ++k) {
        CollectiveTime& row = rows[sizes[i].first + k];
        row.seconds = std::min(row.seconds, 1e-6 * figures[k].us);
      }
    }
  }
  return rows;
}

}  // namespace shard8::bench

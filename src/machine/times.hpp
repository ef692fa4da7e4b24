// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/axes.hpp"
#include "machine/machine.hpp"

namespace shard8::machine {

/// How a time was found: it is an entry of the machine file; it lies between entries; it lies outside of them; it
/// follows from bandwidth and latency alone, without an entry of its own.
enum class Known : std::uint8_t { entry, between, outside, rule };
inline constexpr int kKnown = 4;
std::string_view name_of(Known known);

/// The time of one operation that runs alone, in seconds.
struct Estimate {
  double seconds = 0;
  Known known = Known::entry;
  double factor = 1;  ///< ≥ 1: how far the farthest size lies outside of those of the entries
};

/// Where the ranks of a group lie: `nodes` nodes with at most `per_node` of its ranks each.
struct Placement {
  int ranks = 1, nodes = 1, per_node = 1;
  auto operator<=>(const Placement&) const = default;
};
/// The worst placement of a group of these axes: the one on the most nodes. Consecutive ranks fill a node of
/// `node_ranks` ranks before the next, so a group may lie across nodes that another one does not.
Placement place(const base::Extents& mesh, base::AxisSet group, int node_ranks);

/// Constants that are not known exactly, as factors of what the machine file says: 1 is nominal.
struct Constants {
  double computation = 1;  ///< of times of products, attention and kernels
  double bandwidth = 1;    ///< of rails and links
  double latency = 1;      ///< of latencies
};

/// FLOPs of the causal half of attention's products, of which forward has two and backward five, as if each query met
/// keys of a sequence that is longer by `more` tokens.
double flops_of(const operation::Attention& attention, double more = 0);

/// An entry that a machine file may leave out, and does.
struct NotGiven {
  std::string key;    ///< "network.latency_rank"
  std::string taken;  ///< what was taken in its place: "0 us"
  bool operator==(const NotGiven&) const = default;
};
/// "network.latency_rank (0 us)"
std::string to_text(const NotGiven& entry);
/// Adds the entries of `more` that `to` does not have yet.
void add(std::vector<NotGiven>& to, const std::vector<NotGiven>& more);

/// Finds the times of operations in a machine file. Whoever reads an entry that a file may leave out reads it by
/// value_of() or load_of(), so that not_given() is complete. Between entries it interpolates, as each function says.
/// Every function throws Error(deck) if the file has nothing to start from, or if a size lies outside of the entries by
/// more than `most_factor`: the message names the operation, the entry that is needed, the file and the command that
/// measures it.
class Times {
 public:
  /// `machine` must outlive the object. `allows` is the option by which a user allows a larger `most_factor`, for
  /// errors; empty: there is none.
  explicit Times(const Machine& machine, const Constants& constants = {}, double most_factor = kMostFactor,
                 std::string_view allows = "--extrapolate")
      : machine_(machine), constants_(constants), most_factor_(most_factor), allows_(allows) {}

  static constexpr double kMostFactor = 4;

  /// Between entries of the same formats: the time in units of an ideal one, FLOPs at the peak plus bytes at the
  /// bandwidth of memory, is the mean of those of the six nearest entries, weighted by their distance in the logarithms
  /// of M, N and K, and in memory's share. Entries of another kind, dtype of the result or accumulation count as
  /// farther.
  Estimate product(const operation::Product& product) const;
  /// As product(), by FLOPs of the causal half, over the logarithms of batch·heads·seq and of seq, between
  /// entries of the same width of a head.
  Estimate attention(const operation::Attention& attention) const;
  /// Linear in the bytes between two entries of the kernel's name. Without its own entries those of the name "any"
  /// count, and without these device.bandwidth. Beyond its own entries a kernel grows and shrinks as "any" does.
  Estimate kernel(std::string_view name, std::uint64_t bytes) const;
  /// `bytes` of the whole. Inside a node: linear in the bytes between entries of the same operation, for another number
  /// of ranks by bus bandwidth. Between nodes: between entries of the same placement, else by the rule of rings.
  Estimate collective(profile::Collective op, const Placement& at, std::uint64_t bytes) const;

  const Machine& machine() const { return machine_; }

  /// The value of a figure of machine(), or `otherwise` if the file does not give it.
  double value_of(const Figure& figure, double otherwise) const;
  /// Machine::load_of().
  Load load_of(profile::Collective op, int nodes) const;
  /// The entries that were read so far and that the file does not give, each once, in the order in which they were
  /// first read.
  const std::vector<NotGiven>& not_given() const { return not_given_; }

 private:
  /// Notes that `taken` stands for a figure that the file does not give.
  void note(const Figure& figure, std::string_view taken) const;
  void note_ideal(const operation::Product& product) const;
  /// The seconds of a collective by the rule of rings over nodes. Rings pass through every node once on each rail, so a
  /// node receives (nodes − 1)/nodes of the whole over the rails that the group has: a group with r of a node's D ranks
  /// shares them with D/r − 1 groups of its kind, and has r/D of the bandwidth. Inside the node a rank passes
  /// (ranks − 1)/ranks of the whole on. The slower of the two counts, since both work as one pipeline (Thakur,
  /// Rabenseifner and Gropp, IJHPCA 19, 2005, for the rings; NCCL's documentation of rings for the pipeline). `latency`
  /// is added once, latency_rank for each further rank; an all-reduce is a reduce-scatter and an all-gather, or a
  /// double binary tree with 2·log2(nodes) latencies where that is faster.
  double ring_seconds(profile::Collective op, const Placement& at, std::uint64_t bytes) const;
  Estimate on_entries(profile::Collective op, const Placement& at, std::uint64_t bytes) const;
  void require(double factor, const std::string& what, std::string_view group) const;

  const Machine& machine_;
  Constants constants_;
  double most_factor_;
  std::string_view allows_;
  mutable std::vector<NotGiven> not_given_;  ///< a log: no result depends on it
  mutable std::set<const Figure*> noted_;    ///< the figures in not_given_
  mutable bool moved_by_noted_ = false;
};

/// Seconds at `bytes` of rows (bytes, seconds) in ascending order of bytes: those of a row of so many bytes, else
/// linear between rows. Rows whose bytes differ by less than a tenth are one, so that no difference of two measured
/// times is stretched. Outside of the rows seconds grow and shrink as between the two nearest ones, but never faster
/// than in proportion to the bytes. Above, they grow by half of that at least; below, they are at least half of the
/// first.
inline Estimate along(const std::vector<std::pair<double, double>>& rows, double bytes) {
  const auto exact = std::lower_bound(rows.begin(), rows.end(), std::pair(bytes, 0.0));
  if (exact != rows.end() && exact->first == bytes) return {exact->second, Known::entry, 1};
  std::vector<std::pair<double, double>> joined;  // sums, then means
  std::vector<double> counts;
  double first = 0;  // bytes of the first row that was joined
  for (const auto& [b, s] : rows) {
    if (joined.empty() || b > 1.1 * first) {
      joined.emplace_back(b, s);
      counts.push_back(1);
      first = b;
    } else {
      joined.back().first += b;
      joined.back().second += s;
      counts.back() += 1;
    }
  }
  for (std::size_t i = 0; i < joined.size(); ++i) {
    joined[i].first /= counts[i];
    joined[i].second /= counts[i];
  }
  const auto line = [bytes](const auto& a, const auto& b) {
    return a.second + (b.second - a.second) * (bytes - a.first) / (b.first - a.first);
  };
  const auto above = std::lower_bound(joined.begin(), joined.end(), std::pair(bytes, 0.0));
  const auto& low = joined.front();
  const auto& high = joined.back();
  if (above == joined.begin()) {
    const double in_proportion = low.second * bytes / low.first;
    const double seconds =
        joined.size() > 1 ? std::clamp(line(joined[0], joined[1]), in_proportion, low.second) : in_proportion;
    return {std::max(0.5 * low.second, seconds), Known::outside,
            std::max(1.0, rows.front().first / std::max(bytes, 1.0))};
  }
  if (above != joined.end()) return {line(*(above - 1), *above), Known::between, 1};
  const double in_proportion = high.second * bytes / high.first;
  const double seconds = joined.size() > 1
                             ? std::clamp(line(joined[joined.size() - 2], high), 0.5 * in_proportion, in_proportion)
                             : in_proportion;
  return {seconds, Known::outside, std::max(1.0, bytes / rows.back().first)};
}

}  // namespace shard8::machine

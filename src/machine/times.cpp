// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "machine/times.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "machine/fields.hpp"

namespace shard8::machine {

using operation::Attention;
using operation::Product;

namespace {

/// Logarithms of three sizes, and how much of an ideal time is memory's.
using Sizes = std::array<double, 4>;

/// A point in the space of sizes, and the logarithm of what is interpolated there.
struct Point {
  Sizes at{};
  double value = 0;
  double penalty = 0;  ///< added to the squared distance: the point is of a similar kind only
};

/// The mean of the values of the nearest points, weighted by distance⁻² (Shepard, ACM National Conference, 1968).
/// kNearest, the penalties of products and kMemory, in sizes_of(), have the least error where each of 78 products of
/// one H100 is left out in turn and interpolated from the others: 5 % on the mean.
double interpolate(std::span<const Point> points, const Sizes& at) {
  constexpr std::size_t kNearest = 6;
  constexpr double kSame = 1e-3;                // squared distance below which sizes count as equal
  std::vector<std::pair<double, double>> near;  // squared distance, value
  for (const Point& p : points) {
    double d = p.penalty;
    for (std::size_t i = 0; i < at.size(); ++i) d += (p.at[i] - at[i]) * (p.at[i] - at[i]);
    near.emplace_back(d, p.value);
  }
  const auto count = std::min(kNearest, near.size());
  std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(count), near.end());
  double sum = 0, weights = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double weight = 1 / (near[i].first + kSame);
    sum += weight * near[i].second;
    weights += weight;
  }
  return sum / weights;
}

/// How far `at` lies outside of the points, as the largest factor of a size.
double outside(std::span<const Point> points, const Sizes& at) {
  double factor = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    double low = points.front().at[i], high = low;
    for (const Point& p : points) {
      low = std::min(low, p.at[i]);
      high = std::max(high, p.at[i]);
    }
    factor = std::max({factor, at[i] - high, low - at[i]});
  }
  return std::exp(factor);
}

bool same_formats(const Product& a, const Product& b) {
  return a.left.dtype == b.left.dtype && a.left.scaling == b.left.scaling && a.right.dtype == b.right.dtype &&
         a.right.scaling == b.right.scaling;
}

/// Products of E4M3 and of E5M2 operands take the same time on the units that have both.
bool similar_formats(const Product& a, const Product& b) {
  return tensor::size_of(a.left.dtype) == tensor::size_of(b.left.dtype) && a.left.scaling == b.left.scaling &&
         tensor::size_of(a.right.dtype) == tensor::size_of(b.right.dtype) && a.right.scaling == b.right.scaling;
}

double product_bytes(Product p) {
  p.bias = false;
  p.accumulate = p.accumulate || p.residual;
  p.residual = false;
  return static_cast<double>(bytes_read(p) + bytes_written(p));
}

/// The product of a group with the mean of tokens.
Product one_group(Product p) {
  std::int64_t& tokens = p.kind == Product::Kind::wgrad ? p.inner : p.rows;
  tokens = std::max<std::int64_t>(1, tokens / std::exchange(p.groups, 1));
  return p;
}

const Figure& peak_of(const Machine& machine, const Product& p) {
  return machine.peak_of(std::max(tensor::size_of(p.left.dtype), tensor::size_of(p.right.dtype)));
}

/// What a product would take at the machine's peaks: the units' part and memory's, in seconds. Without peaks the units'
/// part is the number of FLOPs, and memory has none.
struct Ideal {
  double units = 0, memory = 0;
  double seconds() const { return units + memory; }
};
Ideal ideal_of(const Machine& machine, const Product& p) {
  const Figure& peak = peak_of(machine, p);
  if (!peak.given() || !machine.bandwidth.given()) return {p.flops(), 0};
  return {p.flops() / peak.value, product_bytes(p) / machine.bandwidth.value};
}

Sizes sizes_of(const Product& p, const Ideal& ideal) {
  constexpr double kMemory = 2;  // weight of memory's part: see interpolate()
  return {std::log(static_cast<double>(p.rows)), std::log(static_cast<double>(p.cols)),
          std::log(static_cast<double>(p.inner)), kMemory * std::log1p(ideal.memory / ideal.units)};
}

/// The work of attention, in FLOPs: that of the causal half of queries x keys. On devices each sequence counts as if it
/// had 512 more keys, since blocks on the diagonal are computed whole and each block of rows costs something more.
/// Chosen: each of 12 measured entries of H100 and H200, found from the others, is then off by 4 to 5 % on the mean.
/// Without the 512 it is off by 6 to 8 %.
double attention_work(const Machine& machine, const Attention& a) { return flops_of(a, machine.device ? 512 : 0); }

Sizes sizes_of(const Attention& a) {
  // Blocks of query rows are what a device works on at once, whatever sequences and heads they are of.
  return {std::log(static_cast<double>(a.shape.batch * a.shape.heads * a.shape.seq)),
          std::log(static_cast<double>(a.shape.seq))};
}

Known known_by(double factor) { return factor > 1.0001 ? Known::outside : Known::between; }

}  // namespace

double flops_of(const Attention& a, double more) {
  const auto n = [](std::int64_t value) { return static_cast<double>(value); };
  return (a.backward ? 5 : 2) * n(a.shape.batch) * n(a.shape.heads) * n(a.shape.seq) * (n(a.shape.seq) + more) *
         n(a.shape.head_dim);
}

std::string_view name_of(Known known) {
  constexpr std::string_view names[kKnown] = {"entry", "between entries", "outside of entries", "rule"};
  return names[static_cast<std::size_t>(known)];
}

Placement place(const base::Extents& mesh, base::AxisSet group, int node_ranks) {
  const int ranks = mesh.ranks(group);
  Placement worst{ranks, 0, 0};
  // Groups repeat where their first ranks lie at the same place of a node.
  const int groups = mesh.ranks() / ranks;
  std::set<int> seen;
  for (int g = 0; g < groups && static_cast<int>(seen.size()) < node_ranks; ++g) {
    const int first = base::Place(mesh, 0).peer(group.others(), g);
    if (!seen.insert(first % node_ranks).second) continue;
    const base::Place at(mesh, first);
    int nodes = 0, here = 0, most = 0, last = -1;
    for (int r = 0; r < ranks; ++r) {
      const int node = at.peer(group, r) / node_ranks;
      here = node == last ? here + 1 : 1;
      nodes += node == last ? 0 : 1;
      most = std::max(most, here);
      last = node;
    }
    if (nodes > worst.nodes) worst = {ranks, nodes, most};
  }
  return worst;
}

void Times::require(double factor, const std::string& what, std::string_view group) const {
  if (factor <= most_factor_ * (1 + 1e-9)) return;
  base::fail(
      base::ExitCode::deck,
      "{}: group {}: {} lies {:.3g} times outside of the entries, and a time is not extrapolated beyond a factor "
      "{:.3g}: measure it (shard8 calibrate DECK --out FILE, with a deck of this size){}",
      machine_.path, group, what, factor, most_factor_,
      allows_.empty() ? "" : fmt::format(", or allow more ({} {:.0f})", allows_, std::ceil(factor)));
}

std::string to_text(const NotGiven& entry) { return fmt::format("{} ({})", entry.key, entry.taken); }

void add(std::vector<NotGiven>& to, const std::vector<NotGiven>& more) {
  for (const NotGiven& entry : more)
    if (std::find(to.begin(), to.end(), entry) == to.end()) to.push_back(entry);
}

void Times::note(const Figure& figure, std::string_view taken) const {
  if (noted_.insert(&figure).second) not_given_.push_back({key_of(machine_, figure), std::string(taken)});
}

double Times::value_of(const Figure& figure, double otherwise) const {
  if (figure.given()) return figure.value;
  if (!noted_.contains(&figure)) note(figure, value_text(machine_, figure, otherwise));
  return otherwise;
}

Load Times::load_of(profile::Collective op, int nodes) const {
  if (!machine_.moved_by_given && !moved_by_noted_ && nodes == 1 && op != profile::Collective::all_reduce) {
    moved_by_noted_ = true;
    not_given_.push_back({"node.moved_by", machine_.copies_in_node ? "copies" : "kernels"});
  }
  return machine_.load_of(op, nodes);
}

/// Notes what ideal_of() misses.
void Times::note_ideal(const Product& p) const {
  for (const Figure* figure : {&peak_of(machine_, p), &machine_.bandwidth})
    if (!figure->given()) note(*figure, "products between rows go by FLOPs alone");
}

Estimate Times::product(const Product& p) const {
  const double scale = constants_.computation;
  std::vector<Point> points;
  const auto gather = [&](auto&& goes) {
    for (const ProductTime& entry : machine_.products) {
      if (!goes(entry.product, p) || (entry.product.groups > 1) != (p.groups > 1)) continue;
      const Ideal of_entry = ideal_of(machine_, entry.product);
      points.push_back({sizes_of(entry.product, of_entry), std::log(entry.seconds / of_entry.seconds()),
                        (entry.product.kind == p.kind ? 0 : 2.0) + (entry.product.out == p.out ? 0 : 0.1) +
                            (entry.product.accumulate == p.accumulate ? 0 : 0.1)});
    }
  };
  for (const ProductTime& entry : machine_.products) {
    Product same = entry.product;
    same.bias = p.bias;
    same.residual = p.residual;
    if (same == p) return {scale * entry.seconds, Known::entry, 1};
  }
  gather(same_formats);
  if (points.empty()) gather(similar_formats);
  if (points.empty() && p.groups > 1) {
    // Hosts multiply group by group. A device multiplies all groups at once, and reads and writes more weights than it
    // would in a product of one group.
    Product plain = machine_.device ? p : one_group(p);
    plain.groups = 1;
    Estimate estimate = product(plain);
    estimate.seconds *= machine_.device ? ideal_of(machine_, p).seconds() / ideal_of(machine_, plain).seconds()
                                        : static_cast<double>(p.groups);
    if (machine_.device) note_ideal(p);
    estimate.known = Known::rule;
    return estimate;
  }
  if (points.empty())
    base::fail(base::ExitCode::deck,
               "{}: group products has no product of these formats: {}; measure it: shard8 calibrate DECK --out FILE, "
               "with a deck of this recipe",
               machine_.path, to_text(p));
  note_ideal(p);
  const Ideal ideal = ideal_of(machine_, p);
  const Sizes at = sizes_of(p, ideal);
  const double factor = outside(points, at);
  require(factor, to_text(p), "products");
  return {scale * ideal.seconds() * std::exp(interpolate(points, at)), known_by(factor), factor};
}

Estimate Times::attention(const Attention& a) const {
  const double scale = constants_.computation;
  std::vector<Point> points, of_other_width;
  for (const AttentionTime& entry : machine_.attention) {
    const Attention& e = entry.attention;
    if (e == a) return {scale * entry.seconds, Known::entry, 1};
    if (e.backward != a.backward || e.dtype != a.dtype) continue;
    const Point point{sizes_of(e), std::log(attention_work(machine_, e) / entry.seconds),
                      (e.shape.deterministic == a.shape.deterministic ? 0 : 1.0) +
                          (e.shape.heads * a.shape.kv_heads == a.shape.heads * e.shape.kv_heads ? 0 : 0.01)};
    (e.shape.head_dim == a.shape.head_dim ? points : of_other_width).push_back(point);
  }
  if (points.empty()) points = of_other_width;
  if (points.empty())
    base::fail(base::ExitCode::deck,
               "{}: group attention has no entry of this direction and dtype: {}; measure it: shard8 calibrate DECK "
               "--out FILE",
               machine_.path, to_text(a));
  const Sizes at = sizes_of(a);
  const double factor = outside(points, at);
  require(factor, to_text(a), "attention");
  return {scale * attention_work(machine_, a) / std::exp(interpolate(points, at)), known_by(factor), factor};
}

Estimate Times::kernel(std::string_view name, std::uint64_t bytes) const {
  const double scale = constants_.computation;
  std::vector<std::pair<double, double>> own, any;
  for (const KernelTime& entry : machine_.kernels) {
    if (entry.name == name) own.emplace_back(static_cast<double>(entry.bytes), entry.seconds);
    if (entry.name == "any") any.emplace_back(static_cast<double>(entry.bytes), entry.seconds);
  }
  std::sort(own.begin(), own.end());
  std::sort(any.begin(), any.end());
  const auto& rows = own.empty() ? any : own;
  if (!rows.empty()) {
    const auto size = static_cast<double>(bytes), smallest = rows.front().first, largest = rows.back().first;
    Estimate estimate = along(rows, size);
    if (!own.empty() && !any.empty()) {  // beyond its own entries the time follows that of the entries `any`
      if (size < smallest && any.front().first < smallest) {
        // Never faster than in proportion to the bytes: caches serve the small ones of `any`.
        const double as_any = along(any, size).seconds / along(any, smallest).seconds;
        estimate = {rows.front().second * std::clamp(as_any, size / smallest, 1.0), Known::rule,
                    std::max(1.0, any.front().first / std::max(size, 1.0))};
      }
      if (size > largest && largest < any.back().first)
        estimate = {rows.back().second * along(any, size).seconds / along(any, largest).seconds, Known::rule,
                    std::max(1.0, size / any.back().first)};
    }
    if (size > largest) require(estimate.factor, fmt::format("{} of {} bytes", name, bytes), "kernels");
    if (own.empty()) estimate.known = Known::rule;  // smaller ones take the time of a launch, and are no error
    estimate.seconds *= scale;
    return estimate;
  }
  if (!machine_.bandwidth.given())
    base::fail(base::ExitCode::deck,
               "{}: group kernels has neither {} nor any, and device.bandwidth is not given: measure it (shard8 "
               "calibrate DECK --out FILE), or give device.bandwidth",
               machine_.path, name);
  constexpr double kLaunch = 3e-6;  // chosen: a kernel that does nothing on a device
  return {scale * ((machine_.device ? kLaunch : 0) +
                   static_cast<double>(bytes) / (machine_.bandwidth_of_kernels * machine_.bandwidth.value)),
          Known::rule, 1};
}

}  // namespace shard8::machine

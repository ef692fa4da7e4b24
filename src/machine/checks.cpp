// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "machine/checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "deck/number.hpp"
#include "machine/rows.hpp"

namespace shard8::machine {
namespace {

// Chosen: measured times have noise, and the smallest sizes are in caches.
constexpr double kFasterThanPeak = 1.05, kFasterThanMemory = 1.2, kFasterThanSmaller = 0.5;
constexpr std::uint64_t kBeyondCaches = std::uint64_t{256} << 20;

std::string microseconds(double seconds) { return deck::format_scaled(seconds, -6) + " us"; }

template <class T>
void check_twice(deck::Diagnostics& errors, const std::vector<T>& rows, const std::vector<deck::Span>& places) {
  std::map<std::string, int> lines;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string name = row_name(rows[i]);
    const auto [first, fresh] = lines.emplace(name, rows[i].line);
    if (!fresh)
      errors.error(places[i], fmt::format("the row '{}' stands here a second time", name),
                   fmt::format("the first is on line {}", first->second));
  }
}

void check_collectives(deck::Diagnostics& errors, const Machine& machine, const std::vector<deck::Span>& places) {
  const auto& rows = machine.collectives;
  const auto kind = [&](std::size_t i) { return std::tie(rows[i].nodes, rows[i].op, rows[i].ranks); };
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple_cat(kind(a), std::tie(rows[a].bytes, rows[a].line)) <
           std::tuple_cat(kind(b), std::tie(rows[b].bytes, rows[b].line));
  });
  const CollectiveTime* slowest = nullptr;  // of those with fewer bytes
  for (std::size_t n = 0; n < order.size(); ++n) {
    const CollectiveTime& row = rows[order[n]];
    if (n == 0 || kind(order[n]) != kind(order[n - 1])) slowest = nullptr;
    if (slowest != nullptr && slowest->bytes < row.bytes && row.seconds < kFasterThanSmaller * slowest->seconds)
      errors.error(
          places[order[n]],
          fmt::format("'{}' takes {}, less than half of the {} for {} bytes on line {}", row_name(row),
                      microseconds(row.seconds), microseconds(slowest->seconds), slowest->bytes, slowest->line),
          "one of the two is wrong: measure both again");
    if (slowest == nullptr || row.seconds > slowest->seconds) slowest = &row;
    if (machine.device && machine.node_devices.given() && row.ranks > machine.node_devices.value)
      errors.error(places[order[n]], fmt::format("{} ranks are on one node", row.ranks),
                   fmt::format("node.devices on line {} is {}", machine.node_devices.line, machine.node_devices.value));
  }
}

void check_products(deck::Diagnostics& errors, const Machine& machine, const std::vector<deck::Span>& places) {
  for (std::size_t i = 0; i < machine.products.size(); ++i) {
    const ProductTime& row = machine.products[i];
    const std::size_t bytes =
        std::min(tensor::size_of(row.product.left.dtype), tensor::size_of(row.product.right.dtype));
    const Figure& peak = machine.peak_of(bytes);
    const double rate = row.product.flops() / row.seconds;
    if (!peak.given() || rate <= kFasterThanPeak * peak.value) continue;
    errors.error(places[i],
                 fmt::format("'{}' in {} is {:.5g} TFLOP/s, more than the device's peak", row_name(row),
                             microseconds(row.seconds), rate / 1e12),
                 fmt::format("{} on line {} is {} TFLOP/s; times are in microseconds",
                             bytes == 1   ? "device.peak_fp8"
                             : bytes == 2 ? "device.peak_bf16"
                                          : "device.peak_fp32",
                             peak.line, deck::format_scaled(peak.value, 12)));
  }
}

void check_kernels(deck::Diagnostics& errors, const Machine& machine, const std::vector<deck::Span>& places) {
  if (!machine.bandwidth.given()) return;
  for (std::size_t i = 0; i < machine.kernels.size(); ++i) {
    const KernelTime& row = machine.kernels[i];
    const double rate = static_cast<double>(row.bytes) / row.seconds;
    if (row.bytes <= kBeyondCaches || rate <= kFasterThanMemory * machine.bandwidth.value) continue;
    errors.error(places[i],
                 fmt::format("'{}' in {} is {:.5g} GB/s, more than the device's memory has", row_name(row),
                             microseconds(row.seconds), rate / 1e9),
                 fmt::format("device.bandwidth on line {} is {} GB/s; times are in microseconds",
                             machine.bandwidth.line, deck::format_scaled(machine.bandwidth.value, 9)));
  }
}

}  // namespace

void check_together(deck::Diagnostics& errors, const Machine& machine, const Places& places) {
  check_twice(errors, machine.products, places.products);
  check_twice(errors, machine.attention, places.attention);
  check_twice(errors, machine.kernels, places.kernels);
  check_twice(errors, machine.collectives, places.collectives);
  check_products(errors, machine, places.products);
  check_kernels(errors, machine, places.kernels);
  check_collectives(errors, machine, places.collectives);
  if (machine.watts.given() && machine.watts_idle.given() && machine.watts_idle.value > machine.watts.value)
    errors.error(places.figures.at("device.watts_idle"),
                 fmt::format("device.watts_idle = {} is above device.watts", machine.watts_idle.value),
                 fmt::format("device.watts on line {} is {}", machine.watts.line, machine.watts.value));
}

}  // namespace shard8::machine

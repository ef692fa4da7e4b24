// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>

#include "profile/report.hpp"

namespace shard8::profile {
namespace {

struct Peaks {
  std::string_view words[2];         ///< the name contains both; empty: any
  std::array<double, 3> tera_flops;  ///< TFLOP/s by Products; data sheets give twice as many "with sparsity"
};

/// The first row that matches a device's name counts.
constexpr Peaks kPeaks[] = {
    {{"H200", "NVL"}, {60, 835.5, 1670.5}},   //
    {{"H200", ""}, {67, 989.4, 1978.9}},      // SXM
    {{"H100", "PCIe"}, {51.2, 756, 1513}},    //
    {{"H100", "NVL"}, {60, 835.5, 1670.5}},   //
    {{"H100", "HBM3"}, {67, 989.4, 1978.9}},  // SXM
    {{"GH200", ""}, {67, 989.4, 1978.9}},     //
    {{"A100", ""}, {19.5, 312, 0}},           //
    {{"GB200", ""}, {80, 2500, 5000}},        //
    {{"B200", ""}, {75, 2250, 4500}},         // HGX
};

/// Whether the name contains `word` as a whole word. A hyphen ends a word, so "A100-SXM4" contains "A100". True for an
/// empty word.
bool has(std::string_view name, std::string_view word) {
  if (word.empty()) return true;
  const auto at = name.find(word);
  if (at == std::string_view::npos || (at > 0 && name[at - 1] != ' ')) return false;
  const auto after = name.substr(at + word.size());
  return after.empty() || after.front() == ' ' || after.front() == '-';
}

}  // namespace

double peak_flops(std::string_view device, Products products) {
  if (has(device, "MIG")) return 0;  // a slice of a device: "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
  for (const Peaks& peaks : kPeaks)
    if (has(device, peaks.words[0]) && has(device, peaks.words[1]))
      return 1e12 * peaks.tera_flops[static_cast<std::size_t>(products)];
  return 0;
}

}  // namespace shard8::profile

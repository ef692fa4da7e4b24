// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tests/style/results_records.hpp"

namespace results {

/// A page of the manual, by lines.
struct Page {
  std::string path;  ///< from the root, as "docs/overlap.md"
  std::vector<std::string> lines;
};

/// README.md, CONTRIBUTING.md and the pages below docs, in the order of their names.
std::vector<Page> read_pages(const std::filesystem::path& root);

/// The page with each block between `<!-- results: SUBJECT -->` and `<!-- end -->` drawn from the newest record of
/// the subject. Reports subjects without a record and blocks without an end.
std::vector<std::string> drawn(const Page& page, const Results& results, Problems& problems);

/// Reports figures with a unit of time, rate or share (s, ms, µs, tokens/s, TFLOP/s, GFLOP/s, GB/s, MB/s, %) that the
/// page states outside code and drawn blocks, and that are neither in docs/results/limits.json for this page nor a
/// value of a file of docs/results to which the same paragraph has a link. Adds the limits that it met to `used`, as
/// their indices.
void check_figures(const Page& page, const Results& results, std::set<std::size_t>& used, Problems& problems);

}  // namespace results

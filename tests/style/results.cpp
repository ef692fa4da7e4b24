// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// usage: style.results ROOT [--write]
//
// Measured figures are data: docs/results/*.json. Without --write, checks that each table of the pages is the one that
// the data give, and that the pages state no other measured figures. With --write, draws the tables of the pages.
#include <fstream>
#include <iostream>
#include <string>

#include "tests/style/results_pages.hpp"

namespace {

void write(const std::filesystem::path& path, const std::vector<std::string>& lines) {
  std::ofstream out(path);
  for (const std::string& line : lines) out << line << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  const bool writes = argc == 3 && std::string(argv[2]) == "--write";
  if (argc != 2 && !writes) {
    std::cerr << "usage: style.results ROOT [--write]\n";
    return 2;
  }
  const std::filesystem::path root = argv[1];
  results::Problems problems;
  const results::Results results = results::read_results(root, problems);
  std::set<std::size_t> used;
  for (results::Page page : results::read_pages(root)) {
    const auto lines = results::drawn(page, results, problems);
    if (writes && lines != page.lines) {
      write(root / page.path, lines);
      std::cout << page.path << ": drawn\n";
    } else if (lines != page.lines) {
      problems.push_back(page.path + ": a table is not what docs/results gives; draw it: style.results . --write");
    }
    page.lines = lines;
    results::check_figures(page, results, used, problems);
  }
  for (std::size_t i = 0; i < results.limits.size(); ++i) {
    const results::Limit& limit = results.limits[i];
    if (used.count(i) == 0) {
      problems.push_back("docs/results/limits.json: " + limit.page + " does not say '" + limit.figure + "': remove it");
    }
  }
  for (const std::string& problem : problems) std::cout << problem << '\n';
  return problems.empty() ? 0 : 1;
}

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/style/results_pages.hpp"

#include <algorithm>
#include <fstream>
#include <regex>

namespace results {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEnd = "<!-- end -->";

/// The subject of a line that begins a block; "" for any other line.
std::string subject_of(const std::string& line) {
  static const std::regex marker("<!-- results: (.*[^ ]) -->");
  std::smatch match;
  return std::regex_match(line, match, marker) ? match[1].str() : "";
}

/// The path from the folder of a page to docs/results.
std::string to_results(const std::string& page) {
  return fs::path("docs/results").lexically_relative(fs::path(page).parent_path()).string() + "/";
}

/// Consecutive lines of prose, joined, and the number of the first one.
struct Paragraph {
  std::size_t line = 0;
  std::string text;
};

/// What a page says outside indented and fenced code and drawn blocks, without code inside lines.
std::vector<Paragraph> paragraphs(const Page& page) {
  static const std::regex code("`[^`]*`");
  std::vector<Paragraph> found(1);
  bool fenced = false, block = false;
  for (std::size_t i = 0; i < page.lines.size(); ++i) {
    const std::string& line = page.lines[i];
    if (!subject_of(line).empty()) block = true;
    const bool fence = line.rfind("```", 0) == 0;
    if (line.empty() || line.rfind("    ", 0) == 0 || fenced || block || fence) {
      if (!found.back().text.empty()) found.emplace_back();
    } else {
      if (found.back().text.empty()) found.back().line = i + 1;
      found.back().text += line + " ";
    }
    if (fence) fenced = !fenced;
    if (line == kEnd) block = false;
  }
  for (Paragraph& paragraph : found) paragraph.text = std::regex_replace(paragraph.text, code, "`");
  return found;
}

/// The values of all files of docs/results to which a paragraph has a link.
std::set<std::string> linked_values(const std::string& text, const Results& results) {
  static const std::regex link("\\]\\([^)]*results/([^)/]*\\.json)\\)");
  std::set<std::string> values;
  for (std::sregex_iterator i(text.begin(), text.end(), link), end; i != end; ++i) {
    const auto file = results.values.find((*i)[1].str());
    if (file != results.values.end()) values.insert(file->second.begin(), file->second.end());
  }
  return values;
}

}  // namespace

std::vector<Page> read_pages(const fs::path& root) {
  std::set<std::string> paths{"CONTRIBUTING.md", "README.md"};
  for (const auto& entry : fs::recursive_directory_iterator(root / "docs")) {
    if (entry.path().extension() == ".md") paths.insert(entry.path().lexically_relative(root).string());
  }
  paths.erase("docs/validation.md");  // drawn by scripts/validate; the test validation.validate compares
  std::vector<Page> pages;
  for (const std::string& path : paths) {
    if (!fs::exists(root / path)) continue;
    Page page{path, {}};
    std::ifstream in(root / path);
    for (std::string line; std::getline(in, line);) page.lines.push_back(line);
    pages.push_back(page);
  }
  return pages;
}

std::vector<std::string> drawn(const Page& page, const Results& results, Problems& problems) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < page.lines.size(); ++i) {
    lines.push_back(page.lines[i]);
    const std::string subject = subject_of(page.lines[i]);
    if (subject.empty()) continue;
    const std::string place = page.path + ":" + std::to_string(i + 1) + ": ";
    const auto end = std::find(page.lines.begin() + static_cast<std::ptrdiff_t>(i), page.lines.end(), kEnd);
    const auto record = results.newest.find(subject);
    if (end == page.lines.end()) problems.push_back(place + "the block has no line " + kEnd);
    if (record == results.newest.end()) problems.push_back(place + "docs/results has no record of '" + subject + "'");
    if (end == page.lines.end() || record == results.newest.end()) continue;
    for (const std::string& line : draw(record->second, to_results(page.path))) lines.push_back(line);
    i = static_cast<std::size_t>(end - page.lines.begin()) - 1;
  }
  return lines;
}

void check_figures(const Page& page, const Results& results, std::set<std::size_t>& used, Problems& problems) {
  static const std::regex figure(
      "(?:^|[^A-Za-z0-9_.,])([0-9][0-9,]*(?:\\.[0-9]+)?) ?(tokens/s|TFLOP/s|GFLOP/s|GB/s|MB/s|ms|us|µs|s|%|per cent)"
      "(?![A-Za-z0-9/_])");
  for (const Paragraph& paragraph : paragraphs(page)) {
    const std::set<std::string> values = linked_values(paragraph.text, results);
    for (std::sregex_iterator i(paragraph.text.begin(), paragraph.text.end(), figure), end; i != end; ++i) {
      const std::string found = figure_of((*i)[1].str(), (*i)[2].str());
      const auto is_limit = [&](const Limit& limit) { return limit.page == page.path && limit.figure == found; };
      const auto limit = std::find_if(results.limits.begin(), results.limits.end(), is_limit);
      if (limit != results.limits.end()) {
        used.insert(static_cast<std::size_t>(limit - results.limits.begin()));
      } else if (values.count(found) == 0) {
        problems.push_back(page.path + ":" + std::to_string(paragraph.line) + ": the paragraph says '" + found +
                           "', of no linked file of docs/results and not in docs/results/limits.json");
      }
    }
  }
}

}  // namespace results

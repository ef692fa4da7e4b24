// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <vector>

#include "base/text.hpp"
#include "bench/calibrate_import_file.hpp"

namespace shard8::bench {
namespace {

using profile::Collective;

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

/// A number above 0 that is the whole word.
std::optional<double> positive(const std::string& word) {
  try {
    std::size_t used = 0;
    const double value = std::stod(word, &used);
    if (used == word.size() && std::isfinite(value) && value > 0) return value;
  } catch (const std::exception&) {
  }
  return std::nullopt;
}

/// The lines of a text, each with what is needed to refuse it.
template <class Line>
void each_line(const Import& import, const Line& line) {
  std::istringstream in(import.text);
  int number = 0;
  for (std::string text; std::getline(in, text);)
    line(words_of(text), text, fmt::format("{}:{}", import.file, ++number));
}

}  // namespace

void read_nccl_table(Import& import) {
  static const std::regex kRank(R"(#\s+Rank\s+\d+.*\son\s+(\S+)\s+device.*)");
  std::set<std::string> hosts;
  int ranks = 0;
  std::optional<Collective> op;
  std::vector<std::string> columns;
  each_line(import, [&](const auto& words, const std::string& text, const std::string& place) {
    std::smatch m;
    if (std::regex_match(text, m, kRank)) {
      ++ranks;
      hosts.insert(m[1]);
      return;
    }
    if (words.empty()) return;
    if (words[0].starts_with('#')) {
      if (text.find("Collective test starting") != std::string::npos) op = operation_in(text);
      if (words.size() > 2 && words[1] == "size" && words[2] == "count") columns.assign(words.begin() + 1, words.end());
      return;
    }
    if (!positive(words[0])) return;  // a line of the launcher or of NCCL_DEBUG, or a size of 0
    if (columns.empty())
      refuse_import(place, "it has values, but no line above names the columns ('#  size  count …')");
    if (!op) op = import.operation_of_name();
    const Collective kind = import.need(op);
    import.set_shape(ranks, static_cast<int>(hosts.size()));
    import.need_shape();
    if (words.size() < columns.size())
      refuse_import(place, fmt::format("it has {} of {} columns", words.size(), columns.size()));
    std::vector<std::size_t> times;
    for (std::size_t c = 0; c < columns.size(); ++c)
      if (columns[c] == "time") times.push_back(c);
    if (times.empty()) refuse_import(place, "no column is named 'time': leave out --report_cputime");
    const std::size_t column = in_place(kind) ? times.back() : times.front();
    const auto us = positive(words[column]);
    if (!us)
      refuse_import(place, fmt::format("time is '{}', but must be a number above 0", base::quotable(words[column])));
    import.add(kind, *positive(words[0]), *us);
  });
}

void read_osu_table(Import& import) {
  std::optional<Collective> op;
  each_line(import, [&](const auto& words, const std::string& text, const std::string& place) {
    if (words.empty()) return;
    if (words[0].starts_with('#')) {
      if (text.find("OSU") != std::string::npos) op = operation_in(text);
      return;
    }
    const auto size = positive(words[0]);
    if (!size || words.size() < 2) return;  // a line of the launcher
    const Collective kind = import.need(op);
    import.need_shape();
    const auto us = positive(words[1]);
    if (!us)
      refuse_import(place, fmt::format("latency is '{}', but must be a number above 0", base::quotable(words[1])));
    // osu_allgather and osu_alltoall count what a rank gives to each rank, the others count the whole.
    const bool of_rank = kind == Collective::all_gather || kind == Collective::all_to_all;
    import.add(kind, of_rank ? *size * import.nodes * import.ranks : *size, *us);
  });
}

}  // namespace shard8::bench

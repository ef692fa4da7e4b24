// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/calibrate_import.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <regex>
#include <sstream>
#include <utility>

#include "base/error.hpp"
#include "base/plain_file.hpp"
#include "base/text.hpp"
#include "bench/calibrate.hpp"

namespace shard8::bench {
namespace {

using profile::Collective;

constexpr std::int64_t kMostRanks = 10000;           // of a node, and nodes
constexpr double kMostBytes = 999999999999999872;    // as in a machine file, below 1e18
constexpr double kLeast_us = 1e-6, kMost_us = 1e12;  // chosen: less than any clock resolves; as in a machine file
constexpr double kFarthest = 2;  // chosen, as for sizes: of two times of one key, above it one is wrong (contradict())

void require_time(double value, const char* unit, double us, const std::string& place) {
  if (value * us >= kLeast_us && value * us <= kMost_us) return;
  refuse_import(place, fmt::format("a time is {} {}, but must be from {} to {} us", value, unit, kLeast_us, kMost_us),
                kMeasureAgain);
}

constexpr const char* kRemedy =
    "give --import the JSON (-J FILE) or the table of nccl-tests, a table of osu_allgather, osu_reduce_scatter, "
    "osu_allreduce or osu_alltoall, or the file of shard8 bench collective --json or bench gemm --json";

}  // namespace

void refuse_import(const std::string& place, const std::string& what, const std::string& remedy) {
  base::fail(base::ExitCode::deck, "{}: error: {}: {}", place, what, remedy.empty() ? kRemedy : remedy);
}

void require_size(double bytes, const std::string& place) {
  if (bytes >= 1 && bytes <= kMostBytes && bytes == std::floor(bytes)) return;
  refuse_import(place, fmt::format("size is {}, but must be a whole number of bytes from 1 to 1e18", bytes),
                kMeasureAgain);
}

std::optional<Collective> operation_in(const std::string& text) {
  std::string plain;
  std::vector<std::size_t> behind;  // for each character of `plain`, where the text goes on behind it
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (std::isalnum(c) == 0) continue;
    plain += static_cast<char>(std::tolower(c));
    behind.push_back(i + 1);
  }
  if (plain.find("neighbor") != std::string::npos) return std::nullopt;
  for (const auto& [name, op] : {std::pair{"allgather", Collective::all_gather},
                                 {"reducescatter", Collective::reduce_scatter},
                                 {"allreduce", Collective::all_reduce},
                                 {"alltoall", Collective::all_to_all},
                                 {"sendrecv", Collective::send_receive},
                                 {"sendreceive", Collective::send_receive}}) {
    const std::string word = name;
    const auto at = plain.find(word);
    if (at == std::string::npos) continue;
    const std::size_t end = at + word.size();
    const std::string next = text.substr(behind[end - 1], 1);
    const bool other = next == "v" || next == "V" || next == "w" || next == "W" || plain.compare(end, 5, "block") == 0;
    if (!other) return op;
  }
  return std::nullopt;
}

void Import::set_shape(const std::map<std::string, std::int64_t>& ranks_of, const std::string& place) {
  if (ranks_of.empty()) return;
  const std::int64_t each = ranks_of.begin()->second;
  for (const auto& [host, n] : ranks_of)
    if (n != each)
      refuse_import(place,
                    fmt::format("host '{}' has {}, but host '{}' has {}", base::quotable(ranks_of.begin()->first),
                                base::count(each, "rank", "ranks"), base::quotable(host), n),
                    "measure with equally many ranks on each node");
  const auto hosts = static_cast<std::int64_t>(ranks_of.size());
  if (hosts > kMostRanks || each > kMostRanks || hosts * each < 2)
    refuse_import(place, fmt::format("it was measured on {} x {} ranks (nodes x ranks on each)", hosts, each),
                  "measure on 2 ranks or more");
  if (!given) {
    nodes = static_cast<int>(hosts);
    ranks = static_cast<int>(each);
    return;
  }
  if (hosts * each != std::int64_t{nodes} * ranks)
    refuse_import(place,
                  fmt::format("it was measured on {} x {} ranks (nodes x ranks on each), but {} x {} were given", hosts,
                              each, nodes, ranks),
                  fmt::format("give {} alone, or with the ranks of the measurement", file));
  if (hosts == nodes || said_shape) return;
  said_shape = true;
  remark(place, fmt::format("its ranks were on {} x {} (hosts x ranks on each): they count as {} x {}, as given", hosts,
                            each, nodes, ranks));
}

void Import::need_shape() const {
  if (nodes != 0) return;
  refuse_import(file, "it does not say on how many nodes and ranks it was measured",
                fmt::format("give --import {}:NODESxRANKS, as in {}:2x8 for 2 nodes with 8 ranks on each", file, file));
}

Collective Import::need(std::optional<Collective> op) const {
  if (!op)
    refuse_import(file, "it does not say which collective was measured",
                  "name the file after the program, as in all_gather_perf.txt");
  return *op;
}

std::optional<Collective> Import::operation_of_name() const {
  return operation_in(file.substr(file.find_last_of('/') + 1));
}

template <class Row, class Same>
void Import::add_row(std::vector<Row>& to, std::vector<Timed>& timed, const Row& row, const std::string& place,
                     const std::string& name, const Same& same) {
  const auto at = std::find_if(to.begin(), to.end(), same);
  if (at == to.end()) {
    to.push_back(row);
    timed.push_back({.place = place});
    return;
  }
  Timed& before = timed[static_cast<std::size_t>(at - to.begin())];
  const double apart = std::max(at->seconds, row.seconds) / std::min(at->seconds, row.seconds);
  if (apart > kFarthest && !any_distance)
    refuse_import(place,
                  fmt::format("{} takes {:.6g} us, but {:.6g} us in {}", name, 1e6 * row.seconds, 1e6 * at->seconds,
                              before.place),
                  "import a copy of the file with the right one of them");
  at->seconds += (row.seconds - at->seconds) / ++before.rows;
  farthest = std::max(farthest, apart);
  repeated.push_back(place);
}

void Import::add(Collective op, double bytes, double us, const std::string& place) {
  require_size(bytes, place);
  require_time(us, "us", 1, place);
  machine::CollectiveTime row;
  row.op = op;
  row.nodes = nodes;
  row.ranks = ranks;
  row.bytes = static_cast<std::uint64_t>(bytes);
  row.seconds = us / 1e6;
  add_row(rows.collectives, timed_collectives, row, place, fmt::format("{} of {} bytes", name_of(op), row.bytes),
          [&](const auto& r) { return kind_of_row(r) == kind_of_row(row) && r.bytes == row.bytes; });
}

void Import::add(const operation::Product& product, double ms, const std::string& place) {
  require_time(ms, "ms", 1e3, place);
  machine::ProductTime row;
  row.seconds = ms / 1e3;
  row.product = product;
  const WorkKey key = WorkKey::of(product);
  add_row(rows.products, timed_products, row, place, "the same product",
          [&](const auto& r) { return WorkKey::of(r.product) == key; });
}

void Import::finish() {
  if (repeated.empty()) return;
  const auto others = static_cast<std::int64_t>(repeated.size()) - 1;
  remark(repeated.front(),
         fmt::format("a row above is of the same{}: such rows become their mean; they differ by a factor of {:.2f} at "
                     "most",
                     others == 0 ? "" : ", as for " + base::count(others, "row", "rows") + " below", farthest));
}

ImportedRows read_import(const std::string& what) {
  static const std::regex kShape(R"((.+):(\d{1,4})x(\d{1,4}))");
  static const std::regex kOsuTitle(R"((^|\n)[ \t]*#[ \t]*OSU )");
  Import import{.file = what, .text = {}};
  std::smatch m;
  if (std::regex_match(what, m, kShape)) {
    import.file = m[1];
    import.nodes = std::stoi(m[2]);
    import.ranks = std::stoi(m[3]);
    import.given = true;
    if (import.nodes < 1 || import.ranks < 1 || import.nodes * import.ranks < 2)
      refuse_import(what, "it has fewer than 2 ranks", "give --import FILE:NODESxRANKS, as in all_gather.json:2x8");
  }
  base::PlainFile file = base::open_plain(import.file, base::Pipes::read);
  std::ostringstream text;
  if (!file.why.empty() || !(text << file.in.rdbuf()))
    base::fail(base::ExitCode::deck, "{}: error: {}: {}", import.file,
               file.why.empty() ? "it cannot be read, or is empty" : "it cannot be read: " + file.why, kRemedy);
  import.text = text.str();
  if (import.text.starts_with("\xEF\xBB\xBF")) import.text.erase(0, 3);  // a byte-order mark
  const auto first = import.text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) refuse_import(import.file, "it is empty");
  if (import.text[first] == '{')
    read_json(import);
  else if (std::regex_search(import.text, kOsuTitle))
    read_osu_table(import);
  else if (import.text.find("out-of-place") != std::string::npos)
    read_nccl_table(import);
  else
    refuse_import(import.file, "it is no file of a program that is known");
  if (import.rows.products.empty() && import.rows.collectives.empty())
    refuse_import(import.file, import.rows.remarks.empty() ? "it has no times"
                                                           : "it has no times that count: " + import.rows.remarks[0]);
  import.finish();
  import.rows.file = import.file;
  return import.rows;
}

}  // namespace shard8::bench

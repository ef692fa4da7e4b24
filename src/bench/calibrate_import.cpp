// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/calibrate_import.hpp"

#include <fmt/format.h>

#include <cctype>
#include <fstream>
#include <regex>
#include <sstream>
#include <utility>

#include "base/error.hpp"
#include "bench/calibrate_import_file.hpp"

namespace shard8::bench {
namespace {

using profile::Collective;

constexpr const char* kRemedy =
    "give --import the JSON (-J FILE) or the table of nccl-tests, a table of osu_allgather, osu_reduce_scatter, "
    "osu_allreduce or osu_alltoall, or the file of shard8 bench collective --json or bench gemm --json";

}  // namespace

void refuse_import(const std::string& place, const std::string& what, const std::string& remedy) {
  base::fail(base::ExitCode::deck, "{}: error: {}: {}", place, what, remedy.empty() ? kRemedy : remedy);
}

std::optional<Collective> operation_in(const std::string& text) {
  std::string plain;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const auto& [word, op] : {std::pair{"allgather", Collective::all_gather},
                                 {"reducescatter", Collective::reduce_scatter},
                                 {"allreduce", Collective::all_reduce},
                                 {"alltoall", Collective::all_to_all},
                                 {"sendrecv", Collective::send_receive},
                                 {"sendreceive", Collective::send_receive}})
    if (plain.find(word) != std::string::npos) return op;
  return std::nullopt;
}

void Import::set_shape(int ranks_in_all, int on_nodes) {
  if (nodes != 0 || ranks_in_all < 2 || on_nodes < 1 || ranks_in_all % on_nodes != 0) return;
  nodes = on_nodes;
  ranks = ranks_in_all / on_nodes;
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

void Import::add(Collective op, double bytes, double us) {
  machine::CollectiveTime row;
  row.op = op;
  row.nodes = nodes;
  row.ranks = ranks;
  row.bytes = static_cast<std::uint64_t>(bytes + 0.5);
  row.seconds = 1e-6 * us;
  rows.collectives.push_back(row);
}

ImportedRows read_import(const std::string& what) {
  static const std::regex kShape(R"((.+):(\d{1,4})x(\d{1,4}))");
  Import import{.file = what, .text = {}};
  std::smatch m;
  if (std::regex_match(what, m, kShape)) {
    import.file = m[1];
    import.nodes = std::stoi(m[2]);
    import.ranks = std::stoi(m[3]);
    if (import.nodes < 1 || import.ranks < 1 || import.nodes * import.ranks < 2)
      refuse_import(what, "it has fewer than 2 ranks", "give --import FILE:NODESxRANKS, as in all_gather.json:2x8");
  }
  std::ifstream in(import.file, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf()))
    base::fail(base::ExitCode::deck, "{}: error: it cannot be read, or is empty: {}", import.file, kRemedy);
  import.text = text.str();
  const auto first = import.text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) refuse_import(import.file, "it is empty");
  if (import.text[first] == '{')
    read_json(import);
  else if (import.text.find("OSU") != std::string::npos)
    read_osu_table(import);
  else if (import.text.find("out-of-place") != std::string::npos)
    read_nccl_table(import);
  else
    refuse_import(import.file, "it is no file of a program that is known");
  if (import.rows.products.empty() && import.rows.collectives.empty()) refuse_import(import.file, "it has no times");
  import.rows.file = import.file;
  return import.rows;
}

}  // namespace shard8::bench

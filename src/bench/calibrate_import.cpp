// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "base/error.hpp"
#include "base/text.hpp"
#include "bench/calibrate.hpp"
#include "bench/calibrate_import.hpp"

namespace shard8::bench {
namespace {

using base::ExitCode;
using machine::CollectiveTime;
using profile::Collective;
using Json = nlohmann::json;

constexpr const char* kRemedy =
    "give --import the JSON (-J FILE) or the table of nccl-tests, a table of osu_allgather, osu_reduce_scatter, "
    "osu_allreduce or osu_alltoall, or the file of shard8 bench collective --json or bench gemm --json";

[[noreturn]] void refuse(const std::string& place, const std::string& what, const std::string& remedy = kRemedy) {
  base::fail(ExitCode::deck, "{}: error: {}: {}", place, what, remedy);
}

/// The operation that a program's name or title means: "all_gather_perf", "OSU MPI Allgather Latency Test".
std::optional<Collective> operation_in(std::string text) {
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

/// An import under way.
struct Import {
  std::string file, text;
  int nodes = 0, ranks = 0;  ///< as the user gives them; 0: not given
  ImportedRows rows{};

  void set_shape(int ranks_in_all, int on_nodes) {
    if (nodes != 0 || ranks_in_all < 2 || on_nodes < 1 || ranks_in_all % on_nodes != 0) return;
    nodes = on_nodes;
    ranks = ranks_in_all / on_nodes;
  }
  void need_shape() const {
    if (nodes == 0)
      refuse(file, "it does not say on how many nodes and ranks it was measured",
             fmt::format("give --import {}:NODESxRANKS, as in {}:2x8 for 2 nodes with 8 ranks on each", file, file));
  }
  Collective need(std::optional<Collective> op) const {
    if (!op)
      refuse(file, "it does not say which collective was measured",
             "name the file after the program, as in all_gather_perf.txt");
    return *op;
  }
  void add(Collective op, double bytes, double us) {
    CollectiveTime row;
    row.op = op;
    row.nodes = nodes;
    row.ranks = ranks;
    row.bytes = static_cast<std::uint64_t>(bytes + 0.5);
    row.seconds = 1e-6 * us;
    rows.collectives.push_back(row);
  }
};

bool in_place(Collective op) { return op != Collective::all_to_all && op != Collective::send_receive; }

double number_at(const Json& object, const char* key, const std::string& place) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number() || !(found->get<double>() > 0))
    refuse(place, fmt::format("{} is {}, but must be a number above 0", key,
                              found == object.end() ? "missing" : base::quotable(found->dump())));
  return found->get<double>();
}

void read_nccl_json(Import& import, const Json& json) {
  std::set<std::string> hosts;
  const Json config = json.value("config", Json::object());
  const Json devices = config.contains("devices") ? config["devices"] : json.value("devices", Json::array());
  for (const Json& device : devices) hosts.insert(device.value("hostname", ""));
  // One entry a process, which may have several devices.
  const int each = std::max(1, config.value("ngpus", 1)) * std::max(1, config.value("nthreads", 1));
  import.set_shape(static_cast<int>(devices.size()) * each, static_cast<int>(hosts.size()));
  std::optional<Collective> op;
  const Json arguments = json.value("args", Json::array());
  if (!arguments.empty() && arguments[0].is_string()) {
    const auto program = arguments[0].get<std::string>();
    op = operation_in(program.substr(program.find_last_of('/') + 1));
  }
  if (!op) op = operation_in(import.file.substr(import.file.find_last_of('/') + 1));
  import.need_shape();
  std::size_t i = 0;
  for (const Json& row : json["results"]) {
    const std::string place = fmt::format("{}: results[{}]", import.file, i++);
    if (!row.is_object()) refuse(place, "it is no object");
    const std::optional<Collective> own = op ? op : operation_in(row.value("experiment_name", ""));
    const Collective kind = import.need(own);
    const bool has_in = row.contains("in_place") && row["in_place"].is_object();
    const char* const which = has_in && in_place(kind) ? "in_place" : "out_of_place";
    if (!row.contains(which) || !row[which].is_object()) refuse(place, fmt::format("it has no object '{}'", which));
    if (row.contains("size") && row["size"].is_number() && row["size"].get<double>() == 0) continue;  // moves nothing
    import.add(kind, number_at(row, "size", place), number_at(row[which], "time", place + "." + which));
  }
}

/// The product that a row of `bench gemm` means: its factors' formats and how they lie tell which of a layer's products
/// it is. A product of 128-blocks that may be a forward one or a gradient's is both.
std::vector<operation::Product> products_of(const Json& row, const std::string& place) {
  static const std::regex kForm(
      R"((\w+) \((\d+), (\d+)\) (\+?=) (\w+)(?:/(\w+))? \((\d+), (\d+)\)(ᵀ?) x (\w+)(?:/(\w+))? \((\d+), (\d+)\)(ᵀ?).*)");
  std::smatch m;
  const std::string text = row.value("product", "");
  if (!std::regex_match(text, m, kForm))
    refuse(place, fmt::format("product is '{}', which is no product of bench gemm", base::quotable(text)));
  const auto dtype = [&](const std::string& name) {
    for (const auto d : {tensor::DType::fp32, tensor::DType::bf16, tensor::DType::e4m3, tensor::DType::e5m2})
      if (name == tensor::name_of(d)) return d;
    refuse(place, fmt::format("'{}' is no dtype of a product", base::quotable(name)));
  };
  operation::Product p{.rows = static_cast<std::int64_t>(number_at(row, "m", place)),
                       .cols = static_cast<std::int64_t>(number_at(row, "n", place)),
                       .inner = static_cast<std::int64_t>(number_at(row, "k", place)),
                       .left = {dtype(m[5])},
                       .right = {dtype(m[10])},
                       .out = dtype(m[1]),
                       .accumulate = m[4] == "+="};
  using Kind = operation::Product::Kind;
  using tensor::Scaling;
  const bool fp8 = tensor::size_of(p.left.dtype) == 1;
  if (!fp8) {
    const bool left_t = m[9].length() > 0, right_t = m[14].length() > 0;
    p.kind = left_t ? Kind::wgrad : right_t ? Kind::dgrad : Kind::fprop;
    return {p};
  }
  const auto with = [&](Kind kind, Scaling left, Scaling right) {
    operation::Product one = p;
    one.kind = kind;
    one.left.scaling = left;
    one.right.scaling = right;
    one.left.transposed = kind == Kind::wgrad;
    one.right.transposed = kind != Kind::fprop;
    return one;
  };
  if (m[6] == "tensor") {
    const bool gradient = p.left.dtype == tensor::DType::e5m2;
    const Kind kind = !gradient ? Kind::fprop : p.out == tensor::DType::fp32 ? Kind::wgrad : Kind::dgrad;
    return {with(kind, Scaling::tensor, Scaling::tensor)};
  }
  if (m[6] == "vec_128" && m[11] == "tile_128")
    return {with(Kind::fprop, Scaling::row_128, Scaling::tile_128),
            with(Kind::dgrad, Scaling::row_128, Scaling::tile_128)};
  if (m[6] == "vec_128" && m[11] == "vec_128") return {with(Kind::wgrad, Scaling::column_128, Scaling::column_128)};
  refuse(place, fmt::format("factors scaled '{}' and '{}' are not products of a training", m[6].str(), m[11].str()));
}

void read_gemm(Import& import, const Json& json) {
  std::size_t i = 0;
  for (const Json& row : json.value("rows", Json::array())) {
    const std::string place = fmt::format("{}: rows[{}]", import.file, i++);
    if (!row.is_object()) refuse(place, "it is no object");
    if (!row.contains("product_ms") || row["product_ms"].is_null()) continue;  // was not timed
    for (const operation::Product& product : products_of(row, place)) {
      machine::ProductTime time;
      time.seconds = 1e-3 * number_at(row, "product_ms", place);
      time.product = product;
      import.rows.products.push_back(time);
    }
  }
}

void read_bench_collectives(Import& import, const Json& json) {
  std::size_t i = 0;
  const bool given = import.nodes != 0;
  for (const Json& row : json["results"]) {
    const std::string place = fmt::format("{}: results[{}]", import.file, i++);
    const std::string name = row.value("operation", "");
    const std::optional<Collective> op = operation_in(name);
    if (!op) refuse(place, fmt::format("operation is '{}'", base::quotable(name)));
    const int ranks = static_cast<int>(number_at(row, "ranks", place));
    if (!given) {
      import.nodes = 1;
      import.ranks = ranks;
    } else if (import.nodes * import.ranks != ranks) {
      refuse(place, fmt::format("it has {} ranks, but {} x {} were given", ranks, import.nodes, import.ranks),
             "give NODESxRANKS with that product, or only the file where all ranks are on one node");
    }
    import.add(*op, number_at(row, "size", place), number_at(row, "time_us", place));
  }
}

void read_json(Import& import) {
  Json json;
  try {
    json = Json::parse(import.text);
  } catch (const Json::parse_error& e) {
    const auto end = import.text.begin() + static_cast<std::ptrdiff_t>(std::min(e.byte, import.text.size()));
    refuse(fmt::format("{}:{}", import.file, 1 + std::count(import.text.begin(), end, '\n')), "it is no JSON");
  }
  try {
    if (json.value("bench", "") == "gemm") return read_gemm(import, json);
    const Json results = json.value("results", Json::array());
    if (results.empty()) refuse(import.file, "it has no results");
    if (results[0].contains("operation")) return read_bench_collectives(import, json);
    return read_nccl_json(import, json);
  } catch (const Json::exception& e) {
    refuse(import.file, fmt::format("a value has another type than in the files of these programs ({})", e.what()));
  }
}

/// The lines of a text, each with what is needed to refuse it.
template <class Line>
void each_line(const Import& import, const Line& line) {
  std::istringstream in(import.text);
  int number = 0;
  for (std::string text; std::getline(in, text);)
    line(words_of(text), text, fmt::format("{}:{}", import.file, ++number));
}

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
    if (columns.empty()) refuse(place, "it has values, but no line above names the columns ('#  size  count …')");
    if (!op) op = operation_in(import.file.substr(import.file.find_last_of('/') + 1));
    const Collective kind = import.need(op);
    import.set_shape(ranks, static_cast<int>(hosts.size()));
    import.need_shape();
    if (words.size() < columns.size())
      refuse(place, fmt::format("it has {} of {} columns", words.size(), columns.size()));
    std::vector<std::size_t> times;
    for (std::size_t c = 0; c < columns.size(); ++c)
      if (columns[c] == "time") times.push_back(c);
    if (times.empty()) refuse(place, "no column is named 'time': leave out --report_cputime");
    const std::size_t column = in_place(kind) ? times.back() : times.front();
    const auto us = positive(words[column]);
    if (!us) refuse(place, fmt::format("time is '{}', but must be a number above 0", base::quotable(words[column])));
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
    if (!us) refuse(place, fmt::format("latency is '{}', but must be a number above 0", base::quotable(words[1])));
    // osu_allgather and osu_alltoall count what a rank gives to each rank, the others count the whole.
    const bool of_rank = kind == Collective::all_gather || kind == Collective::all_to_all;
    import.add(kind, of_rank ? *size * import.nodes * import.ranks : *size, *us);
  });
}

}  // namespace

ImportedRows read_import(const std::string& what) {
  static const std::regex kShape(R"((.+):(\d{1,6})x(\d{1,6}))");
  Import import{.file = what, .text = {}};
  std::smatch m;
  if (std::regex_match(what, m, kShape)) {
    import.file = m[1];
    import.nodes = std::stoi(m[2]);
    import.ranks = std::stoi(m[3]);
    if (import.nodes < 1 || import.ranks < 1 || import.nodes * import.ranks < 2)
      refuse(what, "it has fewer than 2 ranks", "give --import FILE:NODESxRANKS, as in all_gather.json:2x8");
  }
  std::ifstream in(import.file, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf()))
    base::fail(ExitCode::deck, "{}: error: it cannot be read, or is empty: {}", import.file, kRemedy);
  import.text = text.str();
  const auto first = import.text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) refuse(import.file, "it is empty");
  if (import.text[first] == '{')
    read_json(import);
  else if (import.text.find("OSU") != std::string::npos)
    read_osu_table(import);
  else if (import.text.find("out-of-place") != std::string::npos)
    read_nccl_table(import);
  else
    refuse(import.file, "it is no file of a program that is known");
  if (import.rows.products.empty() && import.rows.collectives.empty()) refuse(import.file, "it has no times");
  import.rows.file = import.file;
  return import.rows;
}

}  // namespace shard8::bench

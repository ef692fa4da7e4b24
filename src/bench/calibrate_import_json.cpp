// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <vector>

#include "base/json.hpp"
#include "base/text.hpp"
#include "bench/bench.hpp"
#include "bench/calibrate_import.hpp"

namespace shard8::bench {
namespace {

using profile::Collective;
using PlainJson = nlohmann::json;
using base::json_list;
using base::json_value_or;

const PlainJson kNoMembers = PlainJson::object(), kNoValues = PlainJson::array();

const PlainJson& member_or(const PlainJson& object, const char* key, const PlainJson& otherwise) {
  return base::json_object(object).contains(key) ? object[key] : otherwise;
}

double number_at(const PlainJson& object, const char* key, const std::string& place) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number() || !(found->get<double>() > 0))
    refuse_import(place,
                  fmt::format("{} is {}, but must be a number above 0", key,
                              found == object.end() ? "missing" : base::quotable(found->dump())),
                  kMeasureAgain);
  return found->get<double>();
}

std::int64_t whole_at(const PlainJson& object, const char* key, const std::string& place) {
  constexpr double kMost = 1e9;  // chosen: above any number of ranks and any extent of a product
  const double value = number_at(object, key, place);
  if (value > kMost || value != std::floor(value))
    refuse_import(place, fmt::format("{} is {}, but must be a whole number from 1 to {:.0f}", key, value, kMost),
                  kMeasureAgain);
  return static_cast<std::int64_t>(value);
}

/// Error(deck) if a number of wrong elements is there and is not 0.
void require_right(const PlainJson& object, const char* key, const std::string& place) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null() || (found->is_number() && found->get<double>() == 0)) return;
  refuse_import(place, fmt::format("{} is {}: data came out wrong", key, base::quotable(found->dump())), kMeasureAgain);
}

/// The ranks of each host. `devices` has one entry for each process, and a process may use several devices.
void read_shape(Import& import, const PlainJson& json) {
  const PlainJson& config = base::json_object(member_or(json, "config", kNoMembers));
  const PlainJson& devices =
      json_list(config.contains("devices") ? config["devices"] : member_or(json, "devices", kNoValues));
  std::int64_t each = 1;
  for (const char* const key : {"ngpus", "nthreads"})
    if (config.contains(key)) each *= whole_at(config, key, import.file + ": config");
  std::map<std::string, std::int64_t> ranks_of;
  const std::string place = import.file + ": devices";
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const PlainJson& device = devices[i];
    const std::string host = json_value_or<std::string>(device, "hostname", "");
    if (host.empty()) refuse_import(fmt::format("{}[{}]", place, i), "it has no hostname", kMeasureAgain);
    ranks_of[host] += each;
    if (json_value_or<int>(device, "group", 0) != json_value_or<int>(devices[0], "group", 0))
      refuse_import(place, "its ranks are several groups that ran at once",
                    "measure one group: unset NCCL_TESTS_SPLIT");
  }
  import.set_shape(ranks_of, place);
}

void read_nccl_json(Import& import, const PlainJson& json) {
  read_shape(import, json);
  std::optional<Collective> op;
  const PlainJson& arguments = member_or(json, "args", kNoValues);
  if (arguments.is_array() && !arguments.empty() && arguments[0].is_string()) {
    std::string program = arguments[0].get<std::string>();
    program = program.substr(program.find_last_of('/') + 1);
    op = operation_in(program);
    if (!op && program.ends_with("_perf"))
      refuse_import(import.file + ": args",
                    fmt::format("'{}' times no collective of a machine file", base::quotable(program)));
  }
  if (!op) op = import.operation_of_name();
  import.need_shape();
  std::size_t i = 0;
  for (const PlainJson& row : json["results"]) {
    const std::string place = fmt::format("{}: results[{}]", import.file, i++);
    if (!row.is_object()) refuse_import(place, "it is no object");
    const auto experiment = json_value_or<std::string>(row, "experiment_name", "");
    const std::optional<Collective> own = operation_in(experiment);
    if (op && own && *op != *own)
      refuse_import(place,
                    fmt::format("experiment_name is '{}', but the program or the file is named {}",
                                base::quotable(experiment), name_of(*op)),
                    "name the file after the program, as in all_gather_perf.json");
    const Collective kind = import.need(op ? op : own);
    for (const char* const which : {"in_place", "out_of_place"})
      if (row.contains(which) && row[which].is_object()) require_right(row[which], "nwrong", place + "." + which);
    const bool has_in = row.contains("in_place") && row["in_place"].is_object();
    const char* const which = has_in && in_place(kind) ? "in_place" : "out_of_place";
    if (!row.contains(which) || !row[which].is_object())
      refuse_import(place, fmt::format("it has no object '{}'", which));
    if (row.contains("size") && row["size"].is_number() && row["size"].get<double>() == 0) continue;  // moves nothing
    import.add(kind, number_at(row, "size", place), number_at(row[which], "time", place + "." + which), place);
  }
  require_right(member_or(json, "out_of_bounds", kNoMembers), "count", import.file + ": out_of_bounds");
}

/// The product that a row of `bench gemm` means: its factors' formats and how they lie tell which of a layer's products
/// it is. A product of 128-blocks that may be a forward one or a gradient's is both.
std::vector<operation::Product> products_of(const PlainJson& row, const std::string& place) {
  static const std::regex kForm(
      R"((\w+) \((\d+), (\d+)\) (\+?=) (\w+)(?:/(\w+))? \((\d+), (\d+)\)((?:ᵀ)?) x (\w+)(?:/(\w+))? \((\d+), (\d+)\)((?:ᵀ)?).*)");
  std::smatch m;
  const std::string text = json_value_or<std::string>(row, "product", "");
  if (!std::regex_match(text, m, kForm))
    refuse_import(place, fmt::format("product is '{}', which is no product of bench gemm", base::quotable(text)));
  const auto dtype = [&](const std::string& name) {
    for (const auto d : {tensor::DType::fp32, tensor::DType::bf16, tensor::DType::e4m3, tensor::DType::e5m2})
      if (name == tensor::name_of(d)) return d;
    refuse_import(place, fmt::format("'{}' is no dtype of a product", base::quotable(name)));
  };
  operation::Product p{.rows = whole_at(row, "m", place),
                       .cols = whole_at(row, "n", place),
                       .inner = whole_at(row, "k", place),
                       .left = {dtype(m[5])},
                       .right = {dtype(m[10])},
                       .out = dtype(m[1]),
                       .accumulate = m[4] == "+="};
  const auto has = [&](std::size_t group, std::int64_t a, std::int64_t b) {
    const std::string one = m[group], other = m[group + 1], x = std::to_string(a), y = std::to_string(b);
    return (one == x && other == y) || (one == y && other == x);
  };
  if (!has(2, p.rows, p.cols) || !has(7, p.rows, p.inner) || !has(12, p.inner, p.cols))
    refuse_import(
        place,
        fmt::format("m, n and k are {}, {} and {}, but product is '{}'", p.rows, p.cols, p.inner, base::quotable(text)),
        kMeasureAgain);
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
  refuse_import(place,
                fmt::format("factors scaled '{}' and '{}' are not products of a training", m[6].str(), m[11].str()));
}

void read_gemm(Import& import, const PlainJson& json) {
  std::size_t i = 0;
  for (const PlainJson& row : json_list(member_or(json, "rows", kNoValues))) {
    const std::string place = fmt::format("{}: rows[{}]", import.file, i++);
    if (!row.is_object()) refuse_import(place, "it is no object");
    if (!row.contains("product_ms") || row["product_ms"].is_null()) continue;  // was not timed
    for (const operation::Product& product : products_of(row, place))
      import.add(product, number_at(row, "product_ms", place), place);
  }
}

void read_bench_collectives(Import& import, const PlainJson& json) {
  import.any_distance = true;
  const PlainJson& schema = member_or(json, "schema", kNoValues);
  if (schema.is_number() && schema != kCollectivesSchema)
    refuse_import(import.file + ": schema",
                  fmt::format("it is {}, this program reads {}", schema.dump(), kCollectivesSchema), kMeasureAgain);
  std::size_t i = 0;
  for (const PlainJson& row : json["results"]) {
    const std::string place = fmt::format("{}: results[{}]", import.file, i++);
    const std::string name = json_value_or<std::string>(row, "operation", "");
    const std::optional<Collective> op = operation_in(name);
    if (!op) refuse_import(place, fmt::format("operation is '{}'", base::quotable(name)));
    const std::int64_t ranks = whole_at(row, "ranks", place);
    if (ranks < 2) refuse_import(place, "it has 1 rank, which sends nothing", kMeasureAgain);
    require_right(row, "nwrong", place);
    if (!import.given) {
      import.nodes = 1;
      import.ranks = static_cast<int>(ranks);
    } else if (import.nodes * import.ranks != ranks) {
      refuse_import(place, fmt::format("it has {} ranks, but {} x {} were given", ranks, import.nodes, import.ranks),
                    "give NODESxRANKS with that product, or only the file where all ranks are on one node");
    }
    import.add(*op, number_at(row, "size", place), number_at(row, "time_us", place), place);
  }
  require_right(json, "out_of_bounds", import.file);
}

}  // namespace

void read_json(Import& import) {
  PlainJson json;
  try {
    json = PlainJson::parse(import.text);
  } catch (const PlainJson::parse_error& e) {
    const auto end = import.text.begin() + static_cast<std::ptrdiff_t>(std::min(e.byte, import.text.size()));
    refuse_import(fmt::format("{}:{}", import.file, 1 + std::count(import.text.begin(), end, '\n')), "it is no JSON");
  } catch (const PlainJson::exception& e) {
    refuse_import(import.file, fmt::format("it has a number that is too large ({})", base::text_of_json(e)),
                  kMeasureAgain);
  }
  const auto read = [&] {
    if (json_value_or<std::string>(json, "bench", "") == "gemm") return read_gemm(import, json);
    const PlainJson& results = json_list(member_or(json, "results", kNoValues));
    if (results.empty()) refuse_import(import.file, "it has no results");
    if (results[0].contains("operation")) return read_bench_collectives(import, json);
    return read_nccl_json(import, json);
  };
  try {
    base::in_json(json, read);
  } catch (const base::JsonProblem& e) {
    refuse_import(import.file, fmt::format("it is no file of these programs: {}", e.what()));
  }
}

}  // namespace shard8::bench

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <vector>

#include "base/text.hpp"
#include "bench/calibrate_import_file.hpp"

namespace shard8::bench {
namespace {

using profile::Collective;
using Json = nlohmann::json;

double number_at(const Json& object, const char* key, const std::string& place) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number() || !(found->get<double>() > 0))
    refuse_import(place, fmt::format("{} is {}, but must be a number above 0", key,
                                     found == object.end() ? "missing" : base::quotable(found->dump())));
  return found->get<double>();
}

void read_nccl_json(Import& import, const Json& json) {
  std::set<std::string> hosts;
  const Json config = json.value("config", Json::object());
  const Json devices = config.contains("devices") ? config["devices"] : json.value("devices", Json::array());
  for (const Json& device : devices) hosts.insert(device.value("hostname", ""));
  // `devices` has one entry for each process. A process may use several devices.
  const int each = std::max(1, config.value("ngpus", 1)) * std::max(1, config.value("nthreads", 1));
  import.set_shape(static_cast<int>(devices.size()) * each, static_cast<int>(hosts.size()));
  std::optional<Collective> op;
  const Json arguments = json.value("args", Json::array());
  if (!arguments.empty() && arguments[0].is_string()) {
    const auto program = arguments[0].get<std::string>();
    op = operation_in(program.substr(program.find_last_of('/') + 1));
  }
  if (!op) op = import.operation_of_name();
  import.need_shape();
  std::size_t i = 0;
  for (const Json& row : json["results"]) {
    const std::string place = fmt::format("{}: results[{}]", import.file, i++);
    if (!row.is_object()) refuse_import(place, "it is no object");
    const std::optional<Collective> own = op ? op : operation_in(row.value("experiment_name", ""));
    const Collective kind = import.need(own);
    const bool has_in = row.contains("in_place") && row["in_place"].is_object();
    const char* const which = has_in && in_place(kind) ? "in_place" : "out_of_place";
    if (!row.contains(which) || !row[which].is_object())
      refuse_import(place, fmt::format("it has no object '{}'", which));
    if (row.contains("size") && row["size"].is_number() && row["size"].get<double>() == 0) continue;  // moves nothing
    import.add(kind, number_at(row, "size", place), number_at(row[which], "time", place + "." + which));
  }
}

/// The product that a row of `bench gemm` means: its factors' formats and how they lie tell which of a layer's products
/// it is. A product of 128-blocks that may be a forward one or a gradient's is both.
std::vector<operation::Product> products_of(const Json& row, const std::string& place) {
  static const std::regex kForm(
      R"((\w+) \((\d+), (\d+)\) (\+?=) (\w+)(?:/(\w+))? \((\d+), (\d+)\)((?:ᵀ)?) x (\w+)(?:/(\w+))? \((\d+), (\d+)\)((?:ᵀ)?).*)");
  std::smatch m;
  const std::string text = row.value("product", "");
  if (!std::regex_match(text, m, kForm))
    refuse_import(place, fmt::format("product is '{}', which is no product of bench gemm", base::quotable(text)));
  const auto dtype = [&](const std::string& name) {
    for (const auto d : {tensor::DType::fp32, tensor::DType::bf16, tensor::DType::e4m3, tensor::DType::e5m2})
      if (name == tensor::name_of(d)) return d;
    refuse_import(place, fmt::format("'{}' is no dtype of a product", base::quotable(name)));
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
  refuse_import(place,
                fmt::format("factors scaled '{}' and '{}' are not products of a training", m[6].str(), m[11].str()));
}

void read_gemm(Import& import, const Json& json) {
  std::size_t i = 0;
  for (const Json& row : json.value("rows", Json::array())) {
    const std::string place = fmt::format("{}: rows[{}]", import.file, i++);
    if (!row.is_object()) refuse_import(place, "it is no object");
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
    if (!op) refuse_import(place, fmt::format("operation is '{}'", base::quotable(name)));
    const int ranks = static_cast<int>(number_at(row, "ranks", place));
    if (!given) {
      import.nodes = 1;
      import.ranks = ranks;
    } else if (import.nodes * import.ranks != ranks) {
      refuse_import(place, fmt::format("it has {} ranks, but {} x {} were given", ranks, import.nodes, import.ranks),
                    "give NODESxRANKS with that product, or only the file where all ranks are on one node");
    }
    import.add(*op, number_at(row, "size", place), number_at(row, "time_us", place));
  }
}

}  // namespace

void read_json(Import& import) {
  Json json;
  try {
    json = Json::parse(import.text);
  } catch (const Json::parse_error& e) {
    const auto end = import.text.begin() + static_cast<std::ptrdiff_t>(std::min(e.byte, import.text.size()));
    refuse_import(fmt::format("{}:{}", import.file, 1 + std::count(import.text.begin(), end, '\n')), "it is no JSON");
  }
  try {
    if (json.value("bench", "") == "gemm") return read_gemm(import, json);
    const Json results = json.value("results", Json::array());
    if (results.empty()) refuse_import(import.file, "it has no results");
    if (results[0].contains("operation")) return read_bench_collectives(import, json);
    return read_nccl_json(import, json);
  } catch (const Json::exception& e) {
    refuse_import(import.file,
                  fmt::format("a value has another type than in the files of these programs ({})", e.what()));
  }
}

}  // namespace shard8::bench

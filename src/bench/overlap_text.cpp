// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "bench/overlap.hpp"

namespace shard8::bench {

namespace {

using Json = nlohmann::ordered_json;

/// The members of a row with their names in files, in their order.
Json fields_of(const OverlapRow& row) {
  Json out{{"key", row.key}, {"method", row.method}, {"m", row.m}, {"n", row.n}, {"k", row.k}, {"dtype", row.dtype}};
  out["exchange"] = row.exchange;
  out["exchange_dtype"] = row.exchange_dtype;
  out["exchange_bytes"] = row.exchange_bytes;
  const auto times = [&](const std::string& name, const std::optional<BlockTimes>& t) {
    out[name + "_ms"] = t ? Json(t->median) : Json();
    out[name + "_min_ms"] = t ? Json(t->least) : Json();
    out[name + "_max_ms"] = t ? Json(t->most) : Json();
  };
  times("product", row.product);
  times("exchange", row.alone);
  times("sequential", row.sequential);
  times("overlapped", row.overlapped);
  times("flags", row.flags);
  const auto hidden = row.hidden();
  out["hidden"] = hidden ? Json(*hidden) : Json();
  out["exchange_gb_per_s"] = 1e-9 * row.busbw;
  return out;
}

Json fields_of(const OverlapBench& bench, const Measured& measured) {
  return {{"blocks", bench.settings.blocks},
          {"repetitions", bench.settings.repetitions},
          {"ranks", bench.ranks},
          {"tensor", bench.tensor},
          {"machine", measured.machine},
          {"version", measured.version},
          {"commit", measured.commit},
          {"date", measured.date}};
}

/// One value of a line in CSV. Text with a comma or quotes is quoted.
std::string csv_value(const Json& value) {
  if (value.is_null()) return {};
  if (!value.is_string()) return value.dump();
  const auto& text = value.get_ref<const std::string&>();
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

std::string csv_line(const Json& fields, bool names) {
  std::string line;
  for (const auto& [name, value] : fields.items())
    line += (line.empty() ? "" : ",") + (names ? name : csv_value(value));
  return line + '\n';
}

}  // namespace

std::string to_text(const OverlapBench& bench) {
  constexpr auto kLine = "{:<10} {:<8} {:>6} {:>6} {:>6} {:<5} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8} {:>7}\n";
  constexpr auto kSpread = "{:<10} {:<8} {:>18} {:>18} {:>18} {:>18} {:>18}\n";
  std::string text = fmt::format(kLine, "", "", "", "", "", "", "product", "exchange", "sequential", "overlapped",
                                 "flags", "hidden", "GB/s") +
                     fmt::format(kLine, "key", "method", "M", "N", "K", "dtype", "ms", "ms", "ms", "ms", "ms", "%", "");
  const auto milliseconds = [](double t) { return fmt::format("{:.4f}", t); };
  for (const OverlapRow& r : bench.rows) {
    const auto hidden = r.hidden();
    text += fmt::format(kLine, r.key, r.method, r.m, r.n, r.k, r.dtype, milliseconds(r.product.median),
                        milliseconds(r.alone.median), milliseconds(r.sequential.median),
                        milliseconds(r.overlapped.median), r.flags ? milliseconds(r.flags->median) : "-",
                        hidden ? fmt::format("{:.1f}", 100 * *hidden) : "-", fmt::format("{:.2f}", 1e-9 * r.busbw));
  }
  std::vector<std::string> slower;
  for (const OverlapRow& r : bench.rows)
    if (r.overlapped.median > r.sequential.median) slower.push_back(r.key);
  if (!slower.empty()) text += fmt::format("\nslower than the plain order: {}\n", fmt::join(slower, ", "));
  text += fmt::format("\nleast..most of {}, ms\n", base::count(bench.settings.blocks, "block", "blocks"));
  const auto spread = [](const BlockTimes& t) { return fmt::format("{:.4f}..{:.4f}", t.least, t.most); };
  for (const OverlapRow& r : bench.rows)
    text += fmt::format(kSpread, r.key, r.method, spread(r.product), spread(r.alone), spread(r.sequential),
                        spread(r.overlapped), r.flags ? spread(*r.flags) : "-");
  return text;
}

std::string to_csv(const OverlapBench& bench, const Measured& measured) {
  const Json common = fields_of(bench, measured);
  std::string text;
  for (const OverlapRow& row : bench.rows) {
    Json fields = fields_of(row);
    fields.update(common);
    if (text.empty()) text = csv_line(fields, true);
    text += csv_line(fields, false);
  }
  return text;
}

std::string to_json(const OverlapBench& bench, const Measured& measured) {
  Json out = fields_of(bench, measured);
  out["parts_problem"] = bench.parts_problem;
  out["rows"] = Json::array();
  for (const OverlapRow& row : bench.rows) out["rows"].push_back(fields_of(row));
  return out.dump(2);
}

}  // namespace shard8::bench

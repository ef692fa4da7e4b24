// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// The files of single ranks: JSON, one span a line, times in ns on the rank's own clock.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <string_view>
#include <type_traits>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/plain_file.hpp"
#include "trace/rank_trace.hpp"

namespace shard8::trace {
namespace {

namespace fs = std::filesystem;
using base::json_member;
using base::json_value;
using nlohmann::json;

constexpr int kFormat = 1;
constexpr const char* kExpert = "expert";  ///< the key of Extents::expert; left out for 1
constexpr const char* kSpanKinds[] = {"work", "collective", "issue"};

/// Calls visit(key, member) for every optional member of a span, so that reading and writing are one list.
template <class AnySpan, class Visit>
void for_each_member(AnySpan& s, const Visit& visit) {
  visit("unit", s.unit);
  visit("phase", s.phase);
  visit("part", s.part);
  visit("exchange", s.exchange);
  visit("name", s.name);
  visit("linear", s.linear);
  visit("peer", s.peer);
  visit("m", s.m);
  visit("n", s.n);
  visit("k", s.k);
  visit("groups", s.groups);
  visit("left", s.left);
  visit("right", s.right);
  visit("out", s.out);
  visit("flops", s.flops);
  visit("issued", s.issued);
  visit("issue_ended", s.issue_ended);
  visit("op", s.op);
  visit("group", s.group);
  visit("dtype", s.dtype);
  visit("ranks", s.ranks);
  visit("bytes", s.bytes);
  visit("waited", s.waited);
  visit("exposed", s.exposed);
}

/// What a member has in a new span. Members with the same type share it, but for these two.
template <class T>
T default_of(std::string_view key, const T&) {
  if constexpr (std::is_same_v<T, int>) return key == "peer" ? -1 : 1;  // peer, ranks
  return T{};
}

json json_of(const Span& span) {
  json line = {{"kind", kSpanKinds[static_cast<std::size_t>(span.kind)]},
               {"begin", span.begin},
               {"end", span.end},
               {"step", span.step}};
  for_each_member(span, [&](const char* key, const auto& value) {
    if (!(value == default_of(key, value))) line[key] = value;
  });
  return line;
}

Span span_of(const json& line) {
  Span span;
  const json& name = json_member(line, "kind");
  const auto kind = std::find(std::begin(kSpanKinds), std::end(kSpanKinds), json_value<std::string>(name));
  if (kind == std::end(kSpanKinds)) base::json_is_not(name, "a kind of span");
  span.kind = static_cast<Span::Kind>(kind - std::begin(kSpanKinds));
  span.begin = json_value<decltype(span.begin)>(line, "begin");
  span.end = json_value<decltype(span.end)>(line, "end");
  span.step = json_value<decltype(span.step)>(line, "step");
  for_each_member(span, [&](const char* key, auto& value) {
    if (const auto found = line.find(key); found != line.end())
      value = json_value<std::remove_cvref_t<decltype(value)>>(*found);
  });
  return span;
}

std::string read_file(const fs::path& path) {
  base::PlainText file = base::read_plain(path.string());
  if (!file.why.empty())
    base::fail(base::ExitCode::environment, "cannot read '{}': {}: look at its permissions", path.string(), file.why);
  return std::move(file.text);
}

/// The names of traces in a folder: "trace.json" for files such as trace.rank0003.json.
std::vector<std::string> names_in(const fs::path& folder) {
  static const std::regex pattern(R"((.*)\.rank[0-9]{4,}(\.json))");
  std::vector<std::string> names;
  std::error_code error;
  const auto all = base::names_in(folder, error);
  if (error)
    base::fail(base::ExitCode::environment, "cannot list '{}': {}: look at its permissions", folder.string(),
               error.message());
  for (const std::string& file : all) {
    std::smatch match;
    if (!std::regex_match(file, match, pattern)) continue;
    const std::string name = match[1].str() + match[2].str();
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string only_name_in(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    base::fail(base::ExitCode::environment, "'{}' is not a folder: give the output.dir of a run", folder);
  const auto names = names_in(folder);
  if (names.empty())
    base::fail(base::ExitCode::environment,
               "'{}' has no trace: run the deck with output.trace=trace.json and this output.dir", folder);
  if (names.size() > 1)
    base::fail(base::ExitCode::environment, "'{}' has several traces, {} and {}: say which with --name", folder,
               names[0], names[1]);
  return names.front();
}

void move_to_root_clock(RankTrace& trace, std::int64_t origin) {
  const auto move = [&](std::int64_t& time) {
    if (time != 0) time = on_root_clock(trace.clock, time) - origin;
  };
  for (Step& step : trace.steps) {
    move(step.begin);
    move(step.end);
  }
  for (Span& span : trace.spans)
    for (std::int64_t* time : {&span.begin, &span.end, &span.issued, &span.issue_ended, &span.waited}) move(*time);
}

}  // namespace

std::string to_text(const RankTrace& trace) {
  json head = {
      {"shard8_trace", kFormat}, {"run", trace.run},       {"rank", trace.rank},    {"ranks", trace.ranks},
      {"host", trace.host},      {"device", trace.device}, {"mesh", trace.mesh.of}, {"exchanges", trace.exchanges}};
  if (trace.mesh.expert != 1) head[kExpert] = trace.mesh.expert;
  if (!trace.skeleton.empty()) head["skeleton"] = trace.skeleton;
  head["clock"] = json::array();
  for (const ClockPoint& p : trace.clock)
    head["clock"].push_back({{"local_ns", p.local_ns}, {"ahead_ns", p.ahead_ns}, {"round_trip_ns", p.round_trip_ns}});
  head["steps"] = json::array();
  for (const Step& s : trace.steps) head["steps"].push_back({{"step", s.number}, {"begin", s.begin}, {"end", s.end}});
  std::string text = head.dump();
  text.pop_back();  // the brace
  text += ",\"spans\":[";
  for (std::size_t i = 0; i < trace.spans.size(); ++i) text += (i == 0 ? "\n" : ",\n") + json_of(trace.spans[i]).dump();
  return text + fmt::format("\n],\"spans_written\":{}}}\n", trace.spans.size());
}

namespace {

RankTrace trace_of(const json& all) {
  using Ns = std::int64_t;
  RankTrace trace;
  trace.run = json_value<std::string>(all, "run");
  trace.rank = json_value<int>(all, "rank");
  trace.ranks = json_value<int>(all, "ranks");
  trace.host = json_value<std::string>(all, "host");
  trace.device = json_value<std::string>(all, "device");
  trace.skeleton = base::json_value_or<std::string>(all, "skeleton", "");
  for (std::size_t axis = 0; axis < trace.mesh.of.size(); ++axis)
    trace.mesh.of[axis] = json_value<int>(base::json_element(json_member(all, "mesh"), axis));
  trace.mesh.expert = base::json_value_or<int>(all, kExpert, 1);
  trace.exchanges = json_value<std::vector<std::string>>(all, "exchanges");
  for (const json& p : base::json_list(json_member(all, "clock")))
    trace.clock.push_back(
        {json_value<Ns>(p, "local_ns"), json_value<Ns>(p, "ahead_ns"), json_value<Ns>(p, "round_trip_ns")});
  for (const json& s : base::json_list(json_member(all, "steps")))
    trace.steps.push_back({json_value<Ns>(s, "step"), json_value<Ns>(s, "begin"), json_value<Ns>(s, "end")});
  for (const json& line : base::json_list(json_member(all, "spans"))) trace.spans.push_back(span_of(line));
  json_value<std::size_t>(all, "spans_written");
  return trace;
}

}  // namespace

RankTrace from_text(const std::string& text, const std::string& path) {
  const auto not_whole = [&](const std::string& why) {
    base::fail(
        base::ExitCode::environment,
        "'{}' is not a whole trace of a rank ({}): the run was ended while it wrote the file, or another program "
        "changed it; run the deck again",
        path, why);
  };
  RankTrace trace;
  try {
    const json all = base::parse_json(text);
    if (!all.is_object() || !all.contains("shard8_trace")) not_whole("it has no key shard8_trace");
    if (all["shard8_trace"] != kFormat) not_whole(fmt::format("its format is not {}", kFormat));
    trace = base::in_json(all, [&] { return trace_of(all); });
    if (all.value("spans_written", std::size_t{0}) != trace.spans.size()) not_whole("spans are missing");
  } catch (const base::JsonProblem& e) {
    not_whole(e.what());
  }
  return trace;
}

RunTrace read_run(const std::string& folder, std::string name) {
  if (name.empty()) name = only_name_in(folder);
  RunTrace run{std::move(name), {}};
  int ranks = 1;
  for (int rank = 0; rank < ranks; ++rank) {
    const fs::path path = fs::path(folder) / rank_file_name(run.name, rank);
    std::error_code error;
    if (!fs::is_regular_file(path, error))
      base::fail(
          base::ExitCode::environment,
          "'{}' is missing: a trace needs the file of every rank{}; if ranks had folders of their own, bring the "
          "files together",
          path.string(), rank == 0 ? "" : fmt::format(", and this one has {} ranks", ranks));
    RankTrace trace = from_text(read_file(path), path.string());
    if (rank == 0) ranks = trace.ranks;
    if (trace.rank != rank || trace.ranks != ranks || (rank > 0 && trace.run != run.ranks.front().run))
      base::fail(
          base::ExitCode::environment,
          "'{}' is rank {} of {} of run {}, not rank {} of {} of run {}: files of two runs are in one folder; run "
          "the deck again",
          path.string(), trace.rank, trace.ranks, trace.run, rank, ranks,
          rank == 0 ? trace.run : run.ranks.front().run);
    run.ranks.push_back(std::move(trace));
  }
  const auto& clock = run.ranks.front().clock;
  const std::int64_t origin = clock.empty() ? 0 : clock.front().local_ns;
  for (RankTrace& trace : run.ranks) move_to_root_clock(trace, origin);
  return run;
}

}  // namespace shard8::trace

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/compare/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.hpp"
#include "base/file_kind.hpp"
#include "base/plain_file.hpp"
#include "profile/processor.hpp"
#include "profile/report_files.hpp"
#include "profile/spread.hpp"

namespace shard8::profile {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

template <class... Args>
[[noreturn]] void refuse(const fs::path& path, fmt::format_string<Args...> format, Args&&... args) {
  base::fail(base::ExitCode::deck, "{}: error: {}", path.string(), fmt::format(format, std::forward<Args>(args)...));
}

base::PlainFile open_file(const fs::path& path) {
  base::PlainFile file = base::open_plain(path.string(), base::Pipes::read);
  if (!file.why.empty()) refuse(path, "cannot be read: {}; give an output folder of a run that is over", file.why);
  return file;
}

/// Whether there is something at the path. An error if that cannot be found out.
base::FileKind kind_of(const fs::path& path) {
  const base::FileKind kind = base::kind_of_file(path);
  if (!kind.why.empty())
    refuse(path, "cannot be examined: {}; give an output folder of a run that can be read", kind.why);
  return kind;
}

std::string text_of(const fs::path& path) {
  base::PlainFile file = open_file(path);
  std::string text{std::istreambuf_iterator<char>(file.in), {}};
  if (!file.in) refuse(path, "cannot be read; give an output folder of a run that is over");
  return text;
}

std::string plain(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

RecordedRun::Texts texts_of(const Json& object) {
  RecordedRun::Texts texts;
  for (const auto& [name, value] : object.items()) texts.emplace_back(name, plain(value));
  return texts;
}

double number(const Json& value) { return value.is_null() ? std::nan("") : value.get<double>(); }

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(std::max<std::size_t>(values.size(), 1));
}

/// The file's losses, and the times of its steps from `first` on.
std::vector<double> read_metrics(const fs::path& path, std::int64_t first, RecordedRun& run) {
  base::PlainFile opened = open_file(path);
  std::ifstream& file = opened.in;
  std::vector<double> step_s;
  std::int64_t line = 0;
  for (std::string text; std::getline(file, text);) {  // not all at once: a long run has 200 bytes for each step
    ++line;
    if (file.eof()) refuse(path, "line {} is cut short: the run is not over or was killed; run it again", line);
    try {
      const Json step = Json::parse(text);
      const auto index = step.at("step").get<std::int64_t>();
      run.loss[index] = number(step.at("loss"));
      if (step.contains("validation_loss")) run.validation[index] = number(step.at("validation_loss"));
      run.grad_norm[index] = number(step.at("grad_norm"));
      run.tokens_per_step = step.at("tokens").get<std::int64_t>();
      if (index >= first) step_s.push_back(number(step.at("step_s")));
    } catch (const Json::exception&) {
      refuse(path, "line {} is not a step's metrics: the file is damaged or no metrics.jsonl of a run", line);
    }
  }
  if (file.bad()) refuse(path, "cannot be read behind line {}; copy it again", line);
  if (run.loss.empty()) refuse(path, "has no steps: the run is not over or failed at its start; run it again");
  return step_s;
}

/// The mean over ranks of each phase in each step, by RecordedRun::Time::name; for the step itself the slowest rank's.
std::map<std::string, std::vector<double>> read_timing(const fs::path& path) {
  std::map<std::string, std::vector<double>> times;
  base::PlainFile opened = open_file(path);
  std::ifstream& file = opened.in;
  std::string row;
  std::getline(file, row);
  for (int line = 2; std::getline(file, row); ++line) {
    std::vector<std::string> cells;
    for (std::size_t begin = 0; begin <= row.size();) {
      const std::size_t end = std::min(row.find(',', begin), row.size());
      cells.push_back(row.substr(begin, end - begin));
      begin = end + 1;
    }
    double seconds = 0;
    const bool whole_row = cells.size() == 7;
    const std::string& cell = cells[!whole_row ? 0 : cells[1] == "step" ? 5 : 4];
    const auto [end, status] = std::from_chars(cell.data(), cell.data() + cell.size(), seconds);
    if (!whole_row || status != std::errc() || end != cell.data() + cell.size())
      refuse(path, "line {} is not a row of times: the file is half-written or damaged; run it again", line);
    std::string part = cells[2].substr(0, cells[2].find(" (emulated)"));
    times[cells[1] + (part.empty() ? "" : " " + part)].push_back(seconds);
  }
  return times;
}

void read_collectives(const Json& rows, RecordedRun& run) {
  for (const Json& row : rows) {
    const std::string name = fmt::format("{} {}({}) {}", plain(row.at("operation")), plain(row.at("group")),
                                         row.at("group_size").get<int>(), plain(row.at("dtype")));
    auto& all = run.collectives;
    auto at = std::find_if(all.begin(), all.end(), [&](const auto& known) { return known.name == name; });
    if (at == all.end()) at = all.insert(at, {.name = name});
    const double calls = row.at("calls_per_step").get<double>();
    at->calls += calls;
    at->bytes += calls * row.at("bytes").get<double>();
    at->total_s += row.at("total_s_per_step").get<double>();
    at->exposed_s += row.at("exposed_s_per_step").get<double>();
  }
}

void read_experts(const Json& experts, RecordedRun& run) {
  const Json& tokens = experts.at("tokens");
  const double mean = tokens.at("mean").get<double>();
  run.experts = {{"tokens of an expert, most by mean", mean > 0 ? tokens.at("most").get<double>() / mean : 0},
                 {"rows of the busiest rank by mean", experts.at("busiest").get<double>()},
                 {"rounds of a layer", experts.at("rounds").at("mean").get<double>()}};
}

/// "vm x 4, other x 2", by name.
std::string hosts_text(const Json& hosts) {
  std::map<std::string, int> counts;
  for (const Json& host : hosts) ++counts[plain(host)];
  std::string text;
  for (const auto& [host, ranks] : counts) text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", host, ranks);
  return text;
}

std::string busy_text(const Json& processor) {
  if (!processor.at("busy").get<bool>()) return {};
  const auto rank = processor.at("worst_rank").get<std::size_t>();
  const double without_core = processor.at("without_core").at(rank).get<double>();
  if (without_core <= kWithoutCore && processor.contains("other_programs")) {
    const auto others = processor.at("other_programs").get<std::vector<double>>();
    const auto most = std::max_element(others.begin(), others.end());
    if (most != others.end() && *most > kOthers)
      return fmt::format("other programs took {:.1f} % of the CPUs of rank {}", 100 * *most, most - others.begin());
  }
  return fmt::format("rank {} had work and no core for {:.1f} % of its time, with {:.0f} involuntary switches/s", rank,
                     100 * without_core, processor.at("involuntary_switches_per_s").at(rank).get<double>());
}

void read_summary(const Json& summary, RecordedRun& run) {
  run.has_summary = true;
  run.version = texts_of(summary.at("version"));
  for (const auto& [group, keys] : summary.at("deck").items())
    for (const auto& [key, value] : keys.items()) run.deck.emplace_back(group + "." + key, plain(value));
  run.run = texts_of(summary.at("run"));
  if (summary.contains("gpu"))
    for (const auto& [name, text] : texts_of(summary.at("gpu"))) run.version.emplace_back("gpu " + name, text);
  run.environment = texts_of(summary.at("environment"));
  if (summary.contains("date")) run.date = plain(summary.at("date"));
  run.hosts = hosts_text(summary.at("hosts"));
  run.ranks = summary.at("ranks").get<std::int64_t>();
  if (summary.contains("projected")) {
    const Json& projected = summary.at("projected");
    const Json& step = projected.at("step_s");
    run.projected = {plain(projected.at("machine")), step.at("low").get<double>(), step.at("high").get<double>()};
  }
  if (summary.contains("processor")) {
    const Json& processor = summary.at("processor");
    run.busy = busy_text(processor);
    const auto largest = [&](const char* name) {
      const auto by_rank = processor.value(name, std::vector<double>());
      return by_rank.empty() ? 0 : *std::max_element(by_rank.begin(), by_rank.end());
    };
    run.core_work_s = largest("core_work_s");
    run.core_slowed = largest("core_slowed");
  }
  run.p50_s = summary.at("steps").at("p50_s").get<double>();
  if (summary.contains("skeleton")) run.skeleton = plain(summary.at("skeleton"));
  const Json& figures = summary.at("figures");
  if (run.skeleton.empty()) run.tokens_per_s = figures.at("tokens_per_s").get<double>();
  if (summary.contains("energy_missing")) run.energy_missing = plain(summary.at("energy_missing"));
  if (summary.contains("energy")) {
    const Json& energy = summary.at("energy");
    run.joules_per_token = energy.value("joules_per_token", 0.0);  // a skeleton has none
    run.watts = energy.at("mean_watts").get<double>();
    if (!energy.contains("counted")) run.energy_of = "projected devices";
    if (energy.contains("counted"))
      for (const auto& [kind, joules] : energy.at("counted").items())
        run.energy_of += (run.energy_of.empty() ? "" : ", ") + kind;
  }
  for (const Json& row : summary.at("phases")) {
    const std::string part = plain(row.at("part"));
    const std::string name = plain(row.at("phase")) + (part.empty() ? "" : " " + part);
    const double mean_s = row.at("mean_s").get<double>();
    if (name == "step")
      run.mean_s = mean_s;
    else
      run.phases.push_back({name, mean_s});
  }
  if (summary.contains("exchanges"))
    for (const Json& row : summary.at("exchanges"))
      run.exchanges.push_back({plain(row.at("exchange")), row.at("mean_s").get<double>()});
  if (summary.contains("experts")) read_experts(summary.at("experts"), run);
  read_collectives(summary.at("collectives"), run);
  for (const Json& row : summary.at("casts"))
    run.casts.push_back({plain(row.at("tensor")) + " " + plain(row.at("dtype")), row.at("elements").get<double>(),
                         row.at("saturated").get<double>(), row.at("flushed").get<double>(),
                         row.at("scale_change").get<double>()});
  for (const Json& row : summary.at("memory_per_rank"))
    run.memory.emplace_back(plain(row.at("kind")), row.at("bytes").get<double>());
}

Json parse_summary(const fs::path& path) {
  Json summary = Json::parse(text_of(path), nullptr, false);
  if (summary.is_discarded() || !summary.is_object())
    refuse(path, "is not complete JSON: the file is half-written or damaged; run it again");
  if (!summary.contains("schema")) return summary;
  const Json& schema = summary["schema"];
  if (!schema.is_number_unsigned() || schema < 1 || schema > kSummarySchema)
    refuse(path, "has schema version {}, this program reads 1 to {}: use the program that wrote it, or run it again",
           schema.dump(), kSummarySchema);
  return summary;
}

/// Sets how well the means are known. A phase without times of its own is known as well as the step.
void set_errors(RecordedRun& run, const std::map<std::string, std::vector<double>>& timing,
                const std::vector<double>& step_s) {
  const auto of_steps = timing.find("step");
  const auto steps = mean_of_steps(of_steps == timing.end() ? step_s : of_steps->second);
  if (!steps) return;
  run.known = steps->of(run.mean_s);
  for (RecordedRun::Time& phase : run.phases) {
    const auto found = timing.find(phase.name);
    const auto known = found == timing.end() ? std::nullopt : mean_of_steps(found->second);
    phase.known = known.value_or(*steps).of(phase.mean_s);
  }
}

RecordedRun read_by_summary(const fs::path& given, const fs::path& path) {
  RecordedRun run{.name = given.string()};
  const Json summary = parse_summary(path);
  try {
    read_summary(summary, run);
    if (run.projected) {
      const auto& [machine, low_s, high_s] = *run.projected;
      if (!(0 < low_s && low_s <= run.mean_s && run.mean_s <= high_s))
        refuse(path, "projected.step_s: low {} s, a step of {} s and high {} s do not ascend: project it again", low_s,
               run.mean_s, high_s);
      return run;  // files beside it are not of this step
    }
    const Json& output = summary.at("deck").at("output");
    const fs::path metrics = path.parent_path() / plain(output.at("metrics"));
    const fs::path timing = path.parent_path() / plain(output.at("timing"));
    std::vector<double> step_s;
    if (run.skeleton.empty() && kind_of(metrics).is_there())
      step_s = read_metrics(metrics, summary.at("steps").at("first").get<std::int64_t>(), run);
    set_errors(run, kind_of(timing).is_there() ? read_timing(timing) : std::map<std::string, std::vector<double>>(),
               step_s);
  } catch (const Json::exception& e) {
    refuse(path, "is not a summary of a run ({}); run it again", e.what());
  }
  return run;
}

RecordedRun read_by_metrics(const fs::path& path) {
  RecordedRun run{.name = path.string()};
  const std::vector<double> step_s = read_metrics(path, 0, run);
  run.p50_s = percentile(step_s, 50);
  run.mean_s = mean_of(step_s);
  run.known = mean_of_steps(step_s);
  if (run.mean_s > 0) run.tokens_per_s = static_cast<double>(run.tokens_per_step) / run.mean_s;
  return run;
}

}  // namespace

RecordedRun read_run(const fs::path& path) {
  const base::FileKind kind = kind_of(path);
  if (!kind.is_there()) refuse(path, "there is no such file or folder; give an output folder of a run");
  if (!kind.is_folder()) return path.extension() == ".jsonl" ? read_by_metrics(path) : read_by_summary(path, path);
  const fs::path summary = path / "summary.json";
  if (kind_of(summary).is_there()) return read_by_summary(path, summary);
  if (kind_of(path / "metrics.jsonl").is_there())
    refuse(path,
           "has metrics.jsonl but no summary.json: the run is not over or failed; to compare its losses only, give {}",
           (path / "metrics.jsonl").string());
  refuse(path, "has no summary.json; give an output folder of a run, or its summary file if output.summary renames it");
}

}  // namespace shard8::profile

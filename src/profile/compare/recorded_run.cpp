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

#include "base/arithmetic.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/plain_file.hpp"
#include "profile/processor.hpp"
#include "profile/report_files.hpp"
#include "profile/spread.hpp"

namespace shard8::profile {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using base::json_element;
using base::json_list;
using base::json_member;
using base::json_object;
using base::json_value;

template <class... Args>
[[noreturn]] void refuse(const fs::path& path, fmt::format_string<Args...> format, Args&&... args) {
  base::fail(base::ExitCode::deck, "{}: error: {}", path.string(), fmt::format(format, std::forward<Args>(args)...));
}

[[noreturn]] void cannot_read(const fs::path& path, const std::string& why) {
  refuse(path, "cannot be read: {}; give an output folder of a run that is over", why);
}

base::PlainFile open_file(const fs::path& path) {
  base::PlainFile file = base::open_plain(path.string(), base::Pipes::read);
  if (!file.why.empty()) cannot_read(path, file.why);
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
  base::PlainText file = base::read_plain(path.string(), base::Pipes::read);
  if (!file.why.empty()) cannot_read(path, file.why);
  return std::move(file.text);
}

std::string plain(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

RecordedRun::Texts texts_of(const Json& object) {
  RecordedRun::Texts texts;
  for (const auto& [name, value] : json_object(object).items()) texts.emplace_back(name, plain(value));
  return texts;
}

/// A loss or a norm: null where it was not finite.
double number(const Json& value) { return value.is_null() ? std::nan("") : json_value<double>(value); }

/// Reads the member unit_norms or weight_norms of a step's metrics.
void read_norms(const Json& norms, std::int64_t step, RecordedRun::UnitNorms& to) {
  std::vector<double> values;
  std::vector<std::string> names;
  const auto add = [&](std::string name, const Json& value) {
    values.push_back(number(value));
    names.push_back(std::move(name));
  };
  const auto add_all = [&](const std::string& name, const Json& all, std::size_t first) {
    for (std::size_t i = 0; i < all.size(); ++i) add(fmt::format("{} {}", name, first + i), all[i]);
  };
  if (norms.contains("embedding")) add("embedding", json_member(norms, "embedding"));
  const Json& layers = json_list(json_member(norms, "layers"));
  add_all("layer", layers, 0);
  if (norms.contains("head")) add("head", json_member(norms, "head"));
  if (norms.contains("experts")) {  // of the last layers
    const Json& experts = json_list(json_member(norms, "experts"));
    add_all("experts of layer", experts, layers.size() - std::min(layers.size(), experts.size()));
  }
  to.by_step[step] = std::move(values);
  to.units = std::move(names);
}

constexpr std::int64_t kNoEnd = std::numeric_limits<std::int64_t>::max();

/// The steps from `begin` to before `end`.
struct Steps {
  std::int64_t begin = 0, end = kNoEnd;
};

/// The file's losses of these steps, and the times of those from `first` on.
std::vector<double> read_metrics(const fs::path& path, std::int64_t first, RecordedRun& run, const Steps& steps = {}) {
  base::PlainFile opened = open_file(path);
  std::ifstream& file = opened.in;
  std::vector<double> step_s;
  std::int64_t line = 0;
  for (std::string text; std::getline(file, text);) {  // not all at once: a long run has kilobytes for each step
    ++line;
    if (file.eof()) refuse(path, "line {} is cut short: the run is not over or was killed; run it again", line);
    try {
      const Json step = base::parse_json<Json>(text);
      base::in_json(step, [&] {
        const auto index = json_value<std::int64_t>(step, "step");
        if (index < steps.begin || index >= steps.end) return;
        run.loss[index] = number(json_member(step, "loss"));
        if (step.contains("validation_loss")) run.validation[index] = number(json_member(step, "validation_loss"));
        run.grad_norm[index] = number(json_member(step, "grad_norm"));
        const auto norms = [&](const char* name, RecordedRun::UnitNorms& to) {
          if (step.contains(name) && index < RecordedRun::kUnitNormSteps)
            read_norms(json_member(step, name), index, to);
        };
        norms("unit_norms", run.unit_norms);
        norms("weight_norms", run.weight_norms);
        run.tokens_per_step = json_value<std::int64_t>(step, "tokens");
        if (index >= first) step_s.push_back(json_value<double>(step, "step_s"));
      });
    } catch (const base::JsonProblem& e) {
      refuse(path, "line {} is not a step's metrics: {}: the file is damaged or no metrics.jsonl of a run", line,
             e.what());
    }
  }
  if (file.bad()) refuse(path, "cannot be read behind line {}; copy it again", line);
  if (run.loss.empty() && steps.end == kNoEnd)
    refuse(path, "has no steps: the run is not over or failed at its start; run it again");
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
    const bool is_time = std::isfinite(seconds);
    if (!whole_row || status != std::errc() || end != cell.data() + cell.size() || !is_time)
      refuse(path, "line {} is not a row of times: the file is half-written or damaged; run it again", line);
    std::string part = cells[2].substr(0, cells[2].find(" (emulated)"));
    times[cells[1] + (part.empty() ? "" : " " + part)].push_back(seconds);
  }
  return times;
}

void read_collectives(const Json& rows, RecordedRun& run) {
  for (const Json& row : json_list(rows)) {
    const std::string name =
        fmt::format("{} {}({}) {}", plain(json_member(row, "operation")), plain(json_member(row, "group")),
                    json_value<int>(row, "group_size"), plain(json_member(row, "dtype")));
    auto& all = run.collectives;
    auto at = std::find_if(all.begin(), all.end(), [&](const auto& known) { return known.name == name; });
    if (at == all.end()) at = all.insert(at, {.name = name});
    const double calls = json_value<double>(row, "calls_per_step");
    at->calls += calls;
    at->bytes += calls * json_value<double>(row, "bytes");
    at->total_s += json_value<double>(row, "total_s_per_step");
    at->exposed_s += json_value<double>(row, "exposed_s_per_step");
  }
}

void read_experts(const Json& experts, RecordedRun& run) {
  const Json& tokens = json_member(experts, "tokens");
  const double mean = json_value<double>(tokens, "mean");
  run.experts = {{"tokens of an expert, most by mean", mean > 0 ? json_value<double>(tokens, "most") / mean : 0},
                 {"rows of the busiest rank by mean", json_value<double>(experts, "busiest")},
                 {"rounds of a layer", json_value<double>(json_member(experts, "rounds"), "mean")}};
}

/// "vm x 4, other x 2", by name.
std::string hosts_text(const Json& hosts) {
  std::map<std::string, int> counts;
  for (const Json& host : json_list(hosts)) ++counts[plain(host)];
  std::string text;
  for (const auto& [host, ranks] : counts) text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", host, ranks);
  return text;
}

std::string busy_text(const Json& processor) {
  if (!json_value<bool>(processor, "busy")) return {};
  const auto rank = json_value<std::size_t>(processor, "worst_rank");
  const double without_core = json_value<double>(json_element(json_member(processor, "without_core"), rank));
  if (without_core <= kWithoutCore && processor.contains("other_programs")) {
    const auto others = json_value<std::vector<double>>(processor, "other_programs");
    const auto most = std::max_element(others.begin(), others.end());
    if (most != others.end() && *most > kOthers)
      return fmt::format("other programs took {:.1f} % of the CPUs of rank {}", 100 * *most, most - others.begin());
  }
  return fmt::format("rank {} had work and no core for {:.1f} % of its time, with {:.0f} involuntary switches/s", rank,
                     100 * without_core,
                     json_value<double>(json_element(json_member(processor, "involuntary_switches_per_s"), rank)));
}

void read_summary(const Json& summary, RecordedRun& run) {
  run.has_summary = true;
  run.version = texts_of(json_member(summary, "version"));
  for (const auto& [group, keys] : json_object(json_member(summary, "deck")).items())
    for (const auto& [key, value] : json_object(keys).items()) run.deck.emplace_back(group + "." + key, plain(value));
  run.run = texts_of(json_member(summary, "run"));
  if (summary.contains("gpu"))
    for (const auto& [name, text] : texts_of(json_member(summary, "gpu")))
      run.version.emplace_back("gpu " + name, text);
  run.environment = texts_of(json_member(summary, "environment"));
  run.hosts = hosts_text(json_member(summary, "hosts"));
  run.ranks = json_value<std::int64_t>(summary, "ranks");
  if (summary.contains("projected")) {
    const Json& projected = json_member(summary, "projected");
    const Json& step = json_member(projected, "step_s");
    run.projected = {plain(json_member(projected, "machine")), json_value<double>(step, "low"),
                     json_value<double>(step, "high")};
  }
  if (summary.contains("processor")) {
    const Json& processor = json_member(summary, "processor");
    run.busy = busy_text(processor);
    const auto largest = [&](const char* name) {
      const auto by_rank =
          processor.contains(name) ? json_value<std::vector<double>>(processor, name) : std::vector<double>();
      return by_rank.empty() ? 0 : *std::max_element(by_rank.begin(), by_rank.end());
    };
    run.core_work_s = largest("core_work_s");
    run.core_slowed = largest("core_slowed");
  }
  run.p50_s = json_value<double>(json_member(summary, "steps"), "p50_s");
  if (summary.contains("skeleton")) run.skeleton = plain(json_member(summary, "skeleton"));
  const Json& figures = json_member(summary, "figures");
  if (run.skeleton.empty()) run.tokens_per_s = json_value<double>(figures, "tokens_per_s");
  if (summary.contains("energy_missing")) run.energy_missing = plain(json_member(summary, "energy_missing"));
  if (summary.contains("energy")) {
    const Json& energy = json_member(summary, "energy");
    if (energy.contains("joules_per_token"))  // a skeleton has none
      run.joules_per_token = json_value<double>(energy, "joules_per_token");
    run.watts = json_value<double>(energy, "mean_watts");
    if (!energy.contains("counted")) run.energy_of = "projected devices";
    if (energy.contains("counted"))
      for (const auto& [kind, joules] : json_object(json_member(energy, "counted")).items())
        run.energy_of += (run.energy_of.empty() ? "" : ", ") + kind;
  }
  for (const Json& row : json_list(json_member(summary, "phases"))) {
    const std::string part = plain(json_member(row, "part"));
    const std::string name = plain(json_member(row, "phase")) + (part.empty() ? "" : " " + part);
    const double mean_s = json_value<double>(row, "mean_s");
    if (name == "step")
      run.mean_s = mean_s;
    else
      run.phases.push_back({name, mean_s});
  }
  if (summary.contains("exchanges"))
    for (const Json& row : json_list(json_member(summary, "exchanges")))
      run.exchanges.push_back({plain(json_member(row, "exchange")), json_value<double>(row, "mean_s")});
  if (summary.contains("experts")) read_experts(json_member(summary, "experts"), run);
  read_collectives(json_member(summary, "collectives"), run);
  for (const Json& row : json_list(json_member(summary, "casts")))
    run.casts.push_back({plain(json_member(row, "tensor")) + " " + plain(json_member(row, "dtype")),
                         json_value<double>(row, "elements"), json_value<double>(row, "saturated"),
                         json_value<double>(row, "flushed"), json_value<double>(row, "scale_change")});
  for (const Json& row : json_list(json_member(summary, "memory_per_rank")))
    run.memory.emplace_back(plain(json_member(row, "kind")), json_value<double>(row, "bytes"));
}

Json parse_summary(const fs::path& path) {
  Json summary;
  try {
    summary = base::parse_json<Json>(text_of(path));
  } catch (const base::JsonProblem& e) {
    refuse(path, "is not complete JSON: {}: the file is half-written or damaged; run it again", e.what());
  }
  if (!summary.is_object()) refuse(path, "is no JSON object: the file is damaged or another kind of file");
  if (summary.contains("meshes"))
    refuse(path,
           "is a sweep of many meshes, not a run: give a run, or a projection of one mesh (shard8 project without "
           "--sweep)");
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

/// The steps of an earlier leg, from 1, whose lines metrics.jsonl still has: later legs have cut those that they
/// trained again. Versions before 0.2 do not say where a leg ended.
Steps steps_of_leg(std::int64_t leg, const Json& summary, const fs::path& folder) {
  const Json& steps = json_member(summary, "steps");
  Steps own{json_value<std::int64_t>(steps, "first") - base::json_value_or<std::int64_t>(steps, "left_out", 0)};
  if (summary.contains("end"))
    own.end = base::json_value_or<std::int64_t>(json_member(summary, "end"), "next_step", kNoEnd);
  const fs::path training = folder / "training.json";
  if (!kind_of(training).is_there()) return own;
  try {
    const Json record = base::parse_json<Json>(text_of(training));
    base::in_json(record, [&] {
      const Json& legs = json_list(json_member(record, "legs"));
      for (auto later = static_cast<std::size_t>(leg); later < legs.size(); ++later)
        own.end = std::min(own.end, json_value<std::int64_t>(legs[later], "first_step"));
    });
  } catch (const base::JsonProblem& e) {
    refuse(training, "is no record of a training: {}; move it elsewhere to compare its legs without it", e.what());
  }
  return own;
}

RecordedRun read_by_summary(const fs::path& given, const fs::path& path) {
  RecordedRun run{.name = given.string()};
  const Json summary = parse_summary(path);
  const auto read = [&] {
    read_summary(summary, run);
    if (run.projected) {
      const auto& [machine, low_s, high_s] = *run.projected;
      if (!(0 < low_s && low_s <= run.mean_s && run.mean_s <= high_s))
        refuse(path, "projected.step_s: low {} s, a step of {} s and high {} s do not ascend: project it again", low_s,
               run.mean_s, high_s);
      return;  // other files of the folder are not of this step
    }
    const Json& output = json_member(json_member(summary, "deck"), "output");
    const fs::path metrics = path.parent_path() / plain(json_member(output, "metrics"));
    const auto leg = leg_of_name(path.filename().string(), plain(json_member(output, "summary")));
    std::string timing_name = plain(json_member(output, "timing"));
    if (leg) timing_name = name_of_leg(timing_name, *leg);
    const fs::path timing = path.parent_path() / timing_name;
    std::vector<double> step_s;
    if (run.skeleton.empty() && kind_of(metrics).is_there())
      step_s = read_metrics(metrics, json_value<std::int64_t>(json_member(summary, "steps"), "first"), run,
                            leg ? steps_of_leg(*leg, summary, path.parent_path()) : Steps());
    set_errors(run, kind_of(timing).is_there() ? read_timing(timing) : std::map<std::string, std::vector<double>>(),
               step_s);
  };
  try {
    base::in_json(summary, read);
  } catch (const base::JsonProblem& e) {
    refuse(path, "is not a whole summary of a run: {}; run it again", e.what());
  }
  return run;
}

RecordedRun read_by_metrics(const fs::path& path) {
  RecordedRun run{.name = path.string()};
  const std::vector<double> step_s = read_metrics(path, 0, run);
  run.p50_s = percentile(step_s, 50);
  run.mean_s = base::mean_of(step_s);
  run.known = mean_of_steps(step_s);
  if (run.mean_s > 0) run.tokens_per_s = static_cast<double>(run.tokens_per_step) / run.mean_s;
  return run;
}

/// The summary of the training in a folder: what output.summary names in the deck that training.json holds. The file is
/// summary.json if no record can be read.
fs::path summary_in(const fs::path& folder) {
  const fs::path training = folder / "training.json";
  std::string name;
  try {
    if (kind_of(training).is_there()) {
      const Json record = base::parse_json<Json>(text_of(training));
      base::in_json(record, [&] {
        for (const Json& key : json_list(json_member(record, "deck")))
          if (json_value<std::string>(key, "key") == "output.summary") name = json_value<std::string>(key, "value");
      });
    }
  } catch (const std::exception&) {
    name.clear();
  }
  return folder / (name.empty() ? "summary.json" : name);
}

}  // namespace

RecordedRun read_run(const fs::path& path) {
  const base::FileKind kind = kind_of(path);
  if (!kind.is_there()) refuse(path, "there is no such file or folder; give an output folder of a run");
  if (!kind.is_folder()) return path.extension() == ".jsonl" ? read_by_metrics(path) : read_by_summary(path, path);
  const fs::path summary = summary_in(path);
  if (kind_of(summary).is_there()) return read_by_summary(path, summary);
  if (kind_of(path / "metrics.jsonl").is_there())
    refuse(path, "has metrics.jsonl but no {}: the run is not over or failed; to compare its losses only, give {}",
           summary.filename().string(), (path / "metrics.jsonl").string());
  refuse(path, "has no {}; give an output folder of a run, or its summary file if output.summary renames it",
         summary.filename().string());
}

}  // namespace shard8::profile

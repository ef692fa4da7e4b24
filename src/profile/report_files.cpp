// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/report_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/utc.hpp"
#include "profile/output_file.hpp"

namespace shard8::profile {
namespace {

using Json = nlohmann::ordered_json;

Json object_of(const std::vector<std::pair<std::string, std::string>>& pairs) {
  Json object = Json::object();
  for (const auto& [name, value] : pairs) object[name] = value;
  return object;
}

Json run_of(const SummaryInput::Run& run) {
  return {{"backend", run.backend}, {"device", run.device}, {"threads_per_rank", run.threads_per_rank},
          {"waiting", run.waiting}, {"data", run.data},     {"collectives", run.collectives}};
}

Json end_of(const SummaryInput::End& end) {
  Json object{{"finished", end.reason.empty()}};
  if (!end.reason.empty()) object["reason"] = end.reason;
  object["next_step"] = end.next_step;
  object["steps"] = end.steps;
  object["checkpoint"] = end.checkpoint;
  return object;
}

bool is_secret(std::string_view name) {
  constexpr std::string_view kSecrets[] = {"JWT", "TOKEN", "KEY", "SECRET", "PASSWORD"};
  return std::any_of(std::begin(kSecrets), std::end(kSecrets),
                     [name](std::string_view secret) { return name.find(secret) != std::string_view::npos; });
}

Json deck_of(const std::vector<SummaryInput::DeckValue>& deck) {
  Json object = Json::object();
  for (const auto& [group, key, value, text] : deck) {
    Json parsed = text ? Json(value) : Json::parse(value, nullptr, false);
    object[group][key] = parsed.is_discarded() ? Json(value) : std::move(parsed);
  }
  return object;
}

Json phases_of(const Report& report) {
  Json rows = Json::array();
  const double step = report.times.mean.back().mean;
  for (std::size_t i = 0; i < kTimedRows; ++i) {
    const Spread& s = report.times.mean[i];
    Json row;
    row["phase"] = timed_rows()[i].phase;
    row["part"] = timed_rows()[i].part;
    if (!report.emulated.empty() && timed_rows()[i].part == name_of(Part::gemm)) row["emulated"] = true;
    row["min_s"] = s.min;
    row["mean_s"] = s.mean;
    row["max_s"] = s.max;
    row["share"] = step > 0 ? s.mean / step : 0;
    row["worst_rank"] = s.worst_rank;
    row["worst_host"] = report.hosts[static_cast<std::size_t>(s.worst_rank)];
    rows.push_back(std::move(row));
  }
  return rows;
}

Json exchanges_of(const Report& report) {
  Json rows = Json::array();
  const double step = report.times.mean.back().mean;
  for (const ExchangeRow& row : report.exchanges) {
    const Spread& s = row.exposed;
    rows.push_back({{"exchange", row.name},
                    {"method", row.method},
                    {"min_s", s.min},
                    {"mean_s", s.mean},
                    {"max_s", s.max},
                    {"share", step > 0 ? s.mean / step : 0},
                    {"worst_rank", s.worst_rank}});
  }
  return rows;
}

Json overlap_choice_of(const OverlapChoice& choice) {
  Json keys = Json::array();
  for (const OverlapChoice::Row& row : choice.rows)
    keys.push_back({{"key", name_of(row.exchange)},
                    {"plain_s", row.plain_s},
                    {"method", name_of(row.method)},
                    {"method_s", row.method_s},
                    {"chosen", name_of(row.chosen())}});
  return {{"from", choice.from}, {"keys", std::move(keys)}};
}

Json collectives_of(const Report& report) {
  Json rows = Json::array();
  for (const CollectiveRow& c : report.collectives) {
    Json row;
    row["operation"] = name_of(c.key.op);
    row["group"] = c.key.group;
    row["group_size"] = c.key.group_size;
    row["dtype"] = c.key.dtype;
    row["bytes"] = c.key.bytes;
    row["calls_per_step"] = c.calls_per_step;
    row["total_s_per_step"] = c.total_s;
    row["exposed_s_per_step"] = c.exposed_s;
    row["algbw_bytes_per_s"] = c.algbw;
    row["busbw_bytes_per_s"] = c.busbw;
    rows.push_back(std::move(row));
  }
  return rows;
}

Json processor_of(const ProcessorFigures& p) {
  return {{"busy", p.busy()},
          {"worst_rank", p.worst_rank()},
          {"cpu", p.cpu},
          {"without_core", p.without_core},
          {"involuntary_switches_per_s", p.switches_per_s},
          {"other_programs", p.others},
          {"core_work_s", p.work_s},
          {"core_slowed", p.slowed}};
}

Json in_flight_of(const Report& report) {
  Json rows = Json::array();
  for (const InFlightRow& row : report.in_flight)
    rows.push_back({{"operation", row.operation},
                    {"group", row.group},
                    {"group_size", row.group_size},
                    {"s_per_step", row.seconds},
                    {"exposed_s_per_step", row.exposed_s}});
  return rows;
}

Json casts_of(const Report& report) {
  Json rows = Json::array();
  for (const CastFigures& c : report.casts) {
    rows.push_back({{"tensor", c.tensor},
                    {"dtype", c.dtype},
                    {"elements", c.elements},
                    {"saturated", c.saturated},
                    {"flushed", c.flushed},
                    {"scale_change", c.scale_change}});
  }
  return rows;
}

Json issues_of(const Report& report) {
  Json rows = Json::array();
  for (const IssueRow& row : report.issues)
    rows.push_back({{"what", row.what},
                    {"calls_per_step", row.calls_per_step},
                    {"mean_s", row.mean_s},
                    {"p50_s", row.p50_s},
                    {"max_s", row.max_s}});
  return rows;
}

Json figures_of(const Report& report) {
  Json figures;
  if (!report.skeleton.empty()) {  // a skeleton trains nothing
    figures["exposed_communication"] = report.exposed_communication;
    return figures;
  }
  figures["tokens_per_s"] = report.tokens_per_s;
  figures["tokens_per_s_per_rank"] = report.tokens_per_s / report.ranks;
  figures["model_flops_per_s_per_rank"] = report.flops_per_s_per_rank;
  figures["exposed_communication"] = report.exposed_communication;
  if (report.peak_flops > 0) {
    figures["peak_flops_per_rank"] = report.peak_flops;
    figures["mfu"] = report.flops_per_s_per_rank / report.peak_flops;
  }
  figures["fom"] = report.tokens_per_s;
  return figures;
}

Json validation_of(const ValidationFigures& v) {
  return {{"every", v.every},
          {"batches", v.batches},
          {"tokens", v.tokens},
          {"runs", v.runs},
          {"stopped", v.stopped},
          {"seconds", v.seconds},
          {"last_step", v.last_loss ? Json(v.last_step) : Json(nullptr)},
          {"last_loss", v.last_loss ? Json(*v.last_loss) : Json(nullptr)}};
}

Json checkpoints_of(const CheckpointFigures& c) {
  return {{"written", c.written},
          {"failed", c.failed},
          {"waited", c.waited},
          {"bytes", c.bytes},
          {"held_up_s", c.held_up_s},
          {"held_up_s_per_checkpoint", c.held_up_each_s()},
          {"worst_rank", c.worst_rank},
          {"durable_mean_s", c.durable_mean_s},
          {"durable_longest_s", c.durable_longest_s},
          {"bytes_per_s", c.bytes_per_s},
          {"slowest_bytes_per_s", c.slowest_bytes_per_s},
          {"slowest_rank", c.slowest_rank}};
}

Json compare_off_of(const CompareOff& compared) {
  const auto medians = [](const std::vector<std::vector<double>>& blocks) {
    Json list = Json::array();
    for (const auto& steps : blocks) list.push_back(percentile(steps, 50));
    return list;
  };
  Json object;
  if (compared.measured()) {
    object["with_s"] = compared.with_s();
    object["without_s"] = compared.without_s();
    object["ratio"] = compared.ratio();
  }
  object["blocks"] = compared.blocks();
  object["steps_per_block"] = compared.block_steps;
  object["left_out_per_block"] = compared.left_out;
  object["with_s_by_block"] = medians(compared.with);
  object["without_s_by_block"] = medians(compared.without);
  if (!compared.cut_short.empty()) object["cut_short"] = compared.cut_short;
  return object;
}

Json json_of(const LegTimes& t) {
  return {{"began", base::utc_text(t.began)}, {"ended", base::utc_text(t.ended)},
          {"start_up_s", t.start_up_s},       {"steps_s", t.steps_s},
          {"held_up_s", t.held_up_s},         {"validation_s", t.validation_s},
          {"after_last_s", t.after_last_s}};
}

Json training_of(const SummaryInput::Training& t) {
  Json object{{"id", t.id}, {"parent", t.parent.empty() ? Json(nullptr) : Json(t.parent)}};
  object["parent_step"] = t.parent.empty() ? Json(nullptr) : Json(t.parent_step);
  object["leg"] = t.leg;
  object["from"] = t.from.empty() ? Json(nullptr) : Json(t.from);
  return object;
}

Json inputs_of(const std::vector<SummaryInput::Input>& inputs) {
  Json object = Json::object();
  for (const auto& input : inputs) {
    Json& one = object[input.name];
    one["path"] = input.path;
    if (input.digest.empty()) continue;
    one["length"] = input.length;
    one["samples"] = input.samples;
    one["digest"] = input.digest;
  }
  return object;
}

Json totals_of(const Totals& t) {
  return {{"legs", t.legs},
          {"first_step", t.first_step},
          {"steps", t.steps},
          {"not_recorded", t.not_recorded},
          {"trained_again", t.trained_again},
          {"tokens", t.tokens},
          {"step_s", t.step_s},
          {"tokens_per_s", t.tokens_per_s()}};
}

Json verification_of(const Verification& v) {
  switch (v.status) {
    case Verification::Status::passed:
      return {{"status", "passed"}};
    case Verification::Status::failed:
      return {{"status", "failed"}, {"why", v.why}};
    case Verification::Status::not_reached:
      return {{"status", "not reached"}};
    case Verification::Status::not_checked:
      return {{"status", "not checked"}, {"why", v.why}};
    case Verification::Status::not_configured:
      break;
  }
  return {{"status", "not configured"}};
}

}  // namespace

void write_timing(const std::filesystem::path& path, const Report& report) {
  OutputFile file(path);
  file.write("step,phase,part,min_s,mean_s,max_s,worst_rank\n");
  for (std::size_t at = 0; at < report.times.rows.size(); ++at) {
    std::string rows;
    for (std::size_t i = 0; i < kTimedRows; ++i) {
      const Spread& s = report.times.rows[at][i];
      fmt::format_to(std::back_inserter(rows), "{},{},{},{},{},{},{}\n",
                     report.first_step + static_cast<std::int64_t>(at) * report.times.row_steps, timed_rows()[i].phase,
                     part_label(timed_rows()[i], !report.emulated.empty()), s.min, s.mean, s.max, s.worst_rank);
    }
    file.write(rows);
  }
  file.close();
}

void write_ranks(const std::filesystem::path& path, const Report& report) {
  OutputFile file(path);
  file.write("rank,host,phase,part,mean_s\n");
  for (std::size_t rank = 0; rank < report.hosts.size() && !report.times.by_rank.empty(); ++rank) {
    std::string rows;
    for (std::size_t i = 0; i < kTimedRows; ++i)
      fmt::format_to(std::back_inserter(rows), "{},{},{},{},{}\n", rank, report.hosts[rank], timed_rows()[i].phase,
                     part_label(timed_rows()[i], !report.emulated.empty()), report.times.by_rank[i][rank]);
    file.write(rows);
  }
  file.close();
}

void write_timing_ranks(const std::filesystem::path& path, const Report& report) {
  const auto ranks = static_cast<std::size_t>(report.ranks);
  const std::vector<float>& every = report.times.every;
  const auto of_steps = static_cast<std::size_t>((report.times.steps + report.times.every_steps - 1) /
                                                 report.times.every_steps);  // rows of the record
  SHARD8_REQUIRE(every.size() == of_steps * kTimedRows * ranks, "{} values of {} rows of steps on {} ranks",
                 every.size(), of_steps, ranks);
  OutputFile file(path);
  std::string rows = "step,rank";
  for (const TimedRow& row : timed_rows()) {
    rows += ',' + (row.phase == "step" ? "total" : row.phase);  // "step" is the step's number
    if (!row.part.empty()) rows += '.' + part_label(row, !report.emulated.empty());
  }
  file.write(rows + '\n');
  for (std::size_t at = 0; at < of_steps; ++at) {
    rows.clear();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      fmt::format_to(std::back_inserter(rows), "{},{}",
                     report.first_step + static_cast<std::int64_t>(at) * report.times.every_steps, rank);
      for (std::size_t i = 0; i < kTimedRows; ++i)
        fmt::format_to(std::back_inserter(rows), ",{}", every[(at * kTimedRows + i) * ranks + rank]);
      rows += '\n';
    }
    file.write(rows);
  }
  file.close();
}

std::vector<std::pair<std::string, std::string>> variables_with(const char* const* variables,
                                                                std::span<const std::string_view> prefixes) {
  std::vector<std::pair<std::string, std::string>> found;
  for (; *variables != nullptr; ++variables) {
    const std::string_view text = *variables;
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = text.substr(0, equals);
    const auto begins = [name](std::string_view prefix) { return name.starts_with(prefix); };
    if (std::none_of(prefixes.begin(), prefixes.end(), begins) || is_secret(name)) continue;
    found.emplace_back(name, text.substr(equals + 1));
  }
  std::sort(found.begin(), found.end());
  return found;
}

namespace {

Json parsed_or_null(const std::string& text) {
  try {
    return base::parse_json<Json>(text);
  } catch (const base::JsonProblem&) {
    return nullptr;
  }
}

/// A value of a summary's object "training"; null where there is none.
Json value_of_training(const std::string& text, const char* key) {
  const Json summary = parsed_or_null(text);
  if (!summary.is_object() || !summary.contains("training") || !summary["training"].is_object()) return nullptr;
  return summary["training"].value(key, Json(nullptr));
}

}  // namespace

std::string name_of_leg(const std::string& file, std::int64_t leg) {
  const std::filesystem::path path(file);
  return fmt::format("{}.leg_{}{}", path.stem().string(), leg, path.extension().string());
}

std::optional<std::int64_t> leg_of_name(const std::string& name, const std::string& file) {
  const std::size_t digits = std::filesystem::path(file).stem().string().size() + std::string_view(".leg_").size();
  std::int64_t leg = 0;
  if (name.size() <= digits) return std::nullopt;
  std::from_chars(name.data() + digits, name.data() + name.size(), leg);
  return leg > 0 && name == name_of_leg(file, leg) ? std::optional(leg) : std::nullopt;
}

std::optional<std::int64_t> leg_of_summary(const std::string& text) {
  const Json leg = value_of_training(text, "leg");
  return leg.is_number_unsigned() ? std::optional(leg.get<std::int64_t>()) : std::nullopt;
}

std::string training_of_summary(const std::string& text) {
  const Json id = value_of_training(text, "id");
  return id.is_string() ? id.get<std::string>() : std::string();
}

std::string skeleton_of_summary(const std::string& text) {
  const Json summary = parsed_or_null(text);
  if (!summary.is_object() || !summary.contains("skeleton") || !summary["skeleton"].is_string()) return {};
  return summary["skeleton"].get<std::string>();
}

std::string to_json(const Report& report, const SummaryInput& input) {
  Json summary;
  summary["schema"] = kSummarySchema;
  summary["date"] = input.date;
  summary["command"] = input.command;
  if (!report.skeleton.empty()) summary["skeleton"] = report.skeleton;
  summary["version"] = object_of(input.version);
  summary["gpu"] = Json::object();
  for (const auto& [name, value] : input.gpu) summary["gpu"][name] = value.empty() ? Json(nullptr) : Json(value);
  summary["deck"] = deck_of(input.deck);
  summary["ranks"] = report.ranks;
  summary["hosts"] = report.hosts;
  summary["run"] = run_of(input.run);
  summary["environment"] = object_of(input.environment);
  summary["slurm"] = object_of(input.slurm);
  summary["training"] = training_of(input.training);
  summary["inputs"] = inputs_of(input.inputs);
  summary["end"] = end_of(input.end);
  summary["totals"] = totals_of(input.totals);
  if (input.leg_times) summary["leg_times"] = json_of(*input.leg_times);
  if (!input.overlap.rows.empty()) summary["overlap_choice"] = overlap_choice_of(input.overlap);
  Json steps;
  steps["first"] = report.first_step;
  steps["measured"] = report.measured_steps();
  steps["left_out"] = report.skipped;
  steps["p50_s"] = report.p50_s;
  steps["p95_s"] = report.p95_s;
  steps["p99_s"] = report.p99_s;
  steps["drawn"] = report.times.drawn_s.size();
  steps["per_row"] = report.times.row_steps;
  summary["steps"] = std::move(steps);
  summary["phases"] = report.measured_steps() > 0 ? phases_of(report) : Json::array();
  summary["coverage"] = report.coverage;
  summary["emulated"] = report.emulated;
  if (!report.exchanges.empty()) summary["exchanges"] = exchanges_of(report);
  summary["collectives"] = collectives_of(report);
  summary["in_flight"] = in_flight_of(report);
  summary["casts"] = casts_of(report);
  if (!report.issues.empty()) summary["host_issue"] = issues_of(report);
  if (report.processor) summary["processor"] = processor_of(*report.processor);
  if (report.energy) summary.update(Json::parse(to_json(*report.energy)));
  if (report.experts) summary["experts"] = Json::parse(to_json(*report.experts));
  if (report.checkpoints) summary["checkpoints"] = checkpoints_of(*report.checkpoints);
  if (report.validation) summary["validation"] = validation_of(*report.validation);
  Json memory = Json::array();
  for (const auto& [kind, bytes] : input.memory) memory.push_back({{"kind", kind}, {"bytes", bytes}});
  summary["memory_per_rank"] = std::move(memory);
  summary["figures"] = figures_of(report);
  if (report.compare_off) summary["compare_off"] = compare_off_of(*report.compare_off);
  Json loss{{"final", input.final_loss}};
  if (input.unigram_entropy) loss["unigram_entropy"] = *input.unigram_entropy;
  if (report.skeleton.empty()) summary["loss"] = std::move(loss);
  summary["verification"] = verification_of(report.verification);
  // Names of hosts and variables may contain bytes that are not UTF-8. Such bytes are replaced, so that a run does not
  // fail at its end.
  return summary.dump(2, ' ', false, Json::error_handler_t::replace);
}

void write_summary(const std::filesystem::path& path, const Report& report, const SummaryInput& input) {
  write_output(path, to_json(report, input) + '\n');
}

}  // namespace shard8::profile

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/error.hpp"
#include "profile/metrics.hpp"
#include "profile/output_file.hpp"
#include "profile/report_files.hpp"
#include "tests/profile/synthetic.hpp"

namespace shard8::profile::tests {
namespace {

using nlohmann::ordered_json;

class Folder {
 public:
  Folder() : path_(std::filesystem::path(testing::TempDir()) / ("shard8_profile_" + std::to_string(::getpid()))) {}
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::filesystem::path operator/(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(Files, hold_each_line_of_metrics_at_once) {
  const Folder folder;
  MetricsFile file(folder / "deep/metrics.jsonl");  // creates the folder
  for (int step = 0; step < 3; ++step) {
    file.write({.step = step, .loss = 1.5});
    const auto lines = lines_of(folder / "deep/metrics.jsonl");
    ASSERT_EQ(lines.size(), static_cast<std::size_t>(step + 1));
    EXPECT_EQ(ordered_json::parse(lines.back())["step"], step);
  }
  file.close();
}

// The limit of a file's size lies within a line.
TEST(Files, of_metrics_go_on_when_there_is_room_again) {
  const Folder folder;
  const auto path = folder / "metrics.jsonl";
  MetricsFile file(path);
  ASSERT_TRUE(file.write({.step = 0}));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{std::filesystem::file_size(path) + 10, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THROW(file.write({.step = 1}), base::Error);
  EXPECT_FALSE(file.write({.step = 2})) << "not tried at once";
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::this_thread::sleep_for(MetricsFile::kRetry + std::chrono::milliseconds(100));
  EXPECT_TRUE(file.write({.step = 3}));
  file.close();
  const auto lines = lines_of(path);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(ordered_json::parse(lines[0])["step"], 0);
  EXPECT_EQ(ordered_json::parse(lines[1])["step"], 3);
}

TEST(Files, say_why_they_cannot_be_written) {
  const auto expect_error = [](auto&& action, const std::string& path, const std::string& reason) {
    try {
      action();
      ADD_FAILURE() << "no error for " << path;
    } catch (const base::Error& e) {
      const std::string text = e.what();
      EXPECT_EQ(e.code(), base::ExitCode::environment);
      EXPECT_NE(text.find("'" + path + "'"), std::string::npos) << text;
      EXPECT_NE(text.find(reason), std::string::npos) << text;
      EXPECT_NE(text.find("output.dir"), std::string::npos) << text;
    }
  };
  expect_error([] { OutputFile file("/dev/null/x/metrics.jsonl"); }, "/dev/null/x", "Not a directory");
  try {
    require_writable("/dev/null/x", "give --json a file in");
    ADD_FAILURE() << "no error";
  } catch (const base::Error& e) {
    EXPECT_STREQ(
        e.what(),
        "cannot make folder '/dev/null': Not a directory; give --json a file in a folder that can be written to "
        "and has room");
  }
  expect_error([] { OutputFile file("/proc"); }, "/proc", "Is a directory");
  if (std::filesystem::exists("/dev/full")) {
    expect_error([] { OutputFile("/dev/full").write("text"); }, "/dev/full", "No space left");
  }
}

TEST(Files, require_writable_changes_nothing) {
  namespace fs = std::filesystem;
  const Folder folder;
  require_writable(folder / "deep/er/metrics.jsonl");
  EXPECT_FALSE(fs::exists(folder / ""));  // the folders created for the check are removed
  write_output(folder / "kept", "text");
  require_writable(folder / "kept");
  EXPECT_EQ(lines_of(folder / "kept"), std::vector<std::string>{"text"});
  fs::create_directory(folder / "scratch");
  fs::create_symlink("scratch/run", folder / "one");
  fs::create_symlink("one", folder / "two");
  require_writable(folder / "two");
  EXPECT_TRUE(fs::is_symlink(folder / "one") && fs::is_symlink(folder / "two"));
  EXPECT_TRUE(fs::is_empty(folder / "scratch"));
  write_output(folder / "two", "text");
  require_writable(folder / "two");
  EXPECT_EQ(lines_of(folder / "scratch/run"), std::vector<std::string>{"text"});
  // A link to a folder that does not exist.
  fs::create_symlink("missing", folder / "link");
  EXPECT_THROW(require_writable(folder / "link/metrics.jsonl"), base::Error);
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  fs::create_symlink("circle", folder / "circle");
  EXPECT_THROW(require_writable(folder / "circle"), base::Error);
  EXPECT_THROW(write_output(folder / "circle", "text"), base::Error);
}

// A process that is killed at any of these moments leaves what stands there.
TEST(Files, that_are_replaced_appear_whole) {
  namespace fs = std::filesystem;
  const Folder folder;
  {
    OutputFile file(folder / "summary.json");
    file.write("{");
    EXPECT_FALSE(fs::exists(folder / "summary.json"));
    file.write("}");
    file.close();
  }
  EXPECT_EQ(lines_of(folder / "summary.json"), std::vector<std::string>{"{}"});
  {
    OutputFile left(folder / "summary.json");  // an error ends what writes it
    left.write("half");
    EXPECT_EQ(lines_of(folder / "summary.json"), std::vector<std::string>{"{}"});
  }
  EXPECT_EQ(lines_of(folder / "summary.json"), std::vector<std::string>{"{}"});
  EXPECT_FALSE(fs::exists(folder / "summary.json.tmp"));
}

// While a file that is missing is tried, nothing has its name: where only it cannot be made, nobody sees it tried.
TEST(Files, are_tried_by_another_name) {
  namespace fs = std::filesystem;
  const Folder folder;
  fs::create_directories(folder / "summary.json.tmp");
  EXPECT_THROW(require_writable(folder / "summary.json"), base::Error);
  EXPECT_FALSE(fs::exists(folder / "summary.json"));
}

TEST(Files, remove_output_of_an_earlier_run) {
  namespace fs = std::filesystem;
  const Folder folder;
  remove_output(folder / "missing");
  write_output(folder / "file", "text");
  write_output(folder / "scratch", "text");
  fs::create_symlink("scratch", folder / "link");
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  for (const char* name : {"file", "link", "fifo"}) remove_output(folder / name);
  EXPECT_FALSE(fs::exists(folder / "file"));
  EXPECT_FALSE(fs::exists(folder / "scratch"));
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_TRUE(fs::is_fifo(folder / "fifo"));
}

TEST(Timing, a_row_for_each_rank_and_phase) {
  const Folder folder;
  const Report report = synthetic_report();
  write_ranks(folder / "ranks.csv", report);
  const auto lines = lines_of(folder / "ranks.csv");
  ASSERT_EQ(lines.size(), 1u + kRanks * kTimedRows);
  EXPECT_EQ(lines[0], "rank,host,phase,part,mean_s");
  EXPECT_EQ(lines[1].substr(0, 14), "0,node00,data,");
  EXPECT_EQ(lines[1 + 2 * kTimedRows + 4].substr(0, 22), "2,node01,forward,gemm,");
  for (std::size_t i = 0; i < kTimedRows; ++i) {
    const Spread spread = spread_of(report.times.by_rank[i]);
    EXPECT_NEAR(spread.mean, report.times.mean[i].mean, 1e-12) << i;
    EXPECT_NEAR(spread.max, report.times.mean[i].max, 1e-12) << i;
  }
}

TEST(Timing, a_row_for_each_step_and_rank) {
  const Folder folder;
  Report report = synthetic_report();
  EXPECT_TRUE(report.times.every.empty());
  EXPECT_THROW(write_timing_ranks(folder / "every.csv", report), base::Error);
  report = Job().reports(12, {.tokens_per_step = 1e6, .host = "", .every_rank = true}, 2)[0];
  write_timing_ranks(folder / "every.csv", report);
  const auto lines = lines_of(folder / "every.csv");
  const auto steps = report.times.rows.size();
  ASSERT_EQ(lines.size(), 1u + steps * kRanks);
  EXPECT_EQ(lines[0].substr(0, 52), "step,rank,data,gather_wait,forward,forward.attention");
  EXPECT_EQ(lines[0].substr(lines[0].size() - 12), ",other,total");
  for (std::size_t s = 0; s < steps; ++s) {
    double longest = 0;
    for (std::size_t r = 0; r < kRanks; ++r) {
      const std::string& line = lines[1 + s * kRanks + r];
      EXPECT_TRUE(line.starts_with(std::to_string(report.first_step + static_cast<std::int64_t>(s)) + ',' +
                                   std::to_string(r) + ','))
          << line;
      EXPECT_EQ(std::count(line.begin(), line.end(), ','), 1 + kTimedRows);
      longest = std::max(longest, std::stod(line.substr(line.rfind(',') + 1)));
    }
    EXPECT_NEAR(longest, report.times.rows[s].back().max, 1e-6 * longest);  // a float has 7 digits
  }
}

TEST(Timing, a_row_for_each_step_and_phase) {
  const Folder folder;
  write_timing(folder / "timing.csv", synthetic_report());
  const auto lines = lines_of(folder / "timing.csv");
  ASSERT_EQ(lines.size(), 1u + 10 * kTimedRows);
  EXPECT_EQ(lines[0], "step,phase,part,min_s,mean_s,max_s,worst_rank");
  std::map<std::string, std::vector<std::string>> rows;  // of step 3, by "phase/part"
  for (std::size_t i = 1; i < lines.size(); ++i) {
    std::vector<std::string> fields;
    std::istringstream in(lines[i]);
    for (std::string field; std::getline(in, field, ',');) fields.push_back(field);
    ASSERT_EQ(fields.size(), 7u) << lines[i];
    ASSERT_EQ(std::stoul(fields[0]), 2 + (i - 1) / kTimedRows);
    if (fields[0] == "3") rows[fields[1] + "/" + fields[2]] = fields;
  }
  ASSERT_EQ(rows.size(), static_cast<std::size_t>(kTimedRows));
  EXPECT_NEAR(std::stod(rows["gather_wait/"][5]), 0.054, 1e-12);
  EXPECT_NEAR(std::stod(rows["forward/gemm"][3]), 0.020, 1e-12);
  EXPECT_NEAR(std::stod(rows["forward/gemm"][4]), 0.0225, 1e-12);
  EXPECT_NEAR(std::stod(rows["forward/gemm"][5]), 0.030, 1e-12);
  EXPECT_EQ(rows["forward/gemm"][6], "2");
  EXPECT_NEAR(std::stod(rows["step/"][5]), 0.160, 1e-12);
}

TEST(Timing, labels_emulated_products) {
  const Folder folder;
  write_timing(folder / "timing.csv", synthetic_fp8_reports()[0]);
  int labelled = 0;
  for (const std::string& line : lines_of(folder / "timing.csv")) {
    EXPECT_EQ(line.find(",gemm,"), std::string::npos) << line;
    if (line.find("ward,gemm (emulated),") != std::string::npos) ++labelled;
  }
  EXPECT_EQ(labelled, 10 * 2);
}

TEST(Summary, holds_casts_and_what_is_emulated) {
  const auto s = ordered_json::parse(to_json(synthetic_fp8_reports()[0], {}));
  ASSERT_EQ(s["casts"].size(), 2u);
  EXPECT_EQ(s["casts"][0], (ordered_json{{"tensor", "qkv input"},
                                         {"dtype", "e4m3"},
                                         {"elements", 4000006},
                                         {"saturated", 6},
                                         {"flushed", 600},
                                         {"scale_change", 2.5}}));
  EXPECT_EQ(s["casts"][1]["tensor"], "fc1 output gradient");
  EXPECT_EQ(s["emulated"], "mxfp8");
  int labelled = 0;
  for (const auto& row : s["phases"]) {
    EXPECT_EQ(row.contains("emulated"), row["part"] == "gemm") << row;
    if (row.contains("emulated")) labelled += row["emulated"] == true ? 1 : 0;
  }
  EXPECT_EQ(labelled, 2);
  const auto plain = ordered_json::parse(to_json(synthetic_report(), {}));
  EXPECT_EQ(plain["casts"], ordered_json::array());
  EXPECT_EQ(plain["emulated"], "");
  for (const auto& row : plain["phases"]) EXPECT_FALSE(row.contains("emulated"));
}

TEST(Summary, holds_the_checkpoints) {
  const Report report = Job(false, true).reports(12, {.tokens_per_step = 1}, 2)[0];
  const auto c = ordered_json::parse(to_json(report, {}))["checkpoints"];
  EXPECT_EQ(c["written"], 2);
  EXPECT_EQ(c["failed"], 1);
  EXPECT_EQ(c["waited"], 1);
  EXPECT_EQ(c["bytes"], 8000000000);
  EXPECT_NEAR(c["held_up_s"], 0.8, 1e-12);
  EXPECT_NEAR(c["held_up_s_per_checkpoint"], 0.8 / 3, 1e-12);
  EXPECT_EQ(c["worst_rank"], 2);
  EXPECT_EQ(c["durable_mean_s"], 2.5);
  EXPECT_EQ(c["durable_longest_s"], 3);
  EXPECT_NEAR(c["bytes_per_s"], 1.6e9, 1);
  EXPECT_NEAR(c["slowest_bytes_per_s"], 0.5e9, 1);
  EXPECT_EQ(c["slowest_rank"], 1);
  EXPECT_FALSE(ordered_json::parse(to_json(synthetic_report(), {})).contains("checkpoints"));
}

TEST(Summary, says_how_the_run_ended) {
  const auto end = [](const SummaryInput::End& e) {
    SummaryInput input;
    input.end = e;
    return ordered_json::parse(to_json(synthetic_report(), input))["end"];
  };
  EXPECT_EQ(end({.next_step = 30, .steps = 30}),
            (ordered_json{{"finished", true}, {"next_step", 30}, {"steps", 30}, {"checkpoint", false}}));
  EXPECT_EQ(end({.reason = "SIGTERM", .next_step = 12, .steps = 30, .checkpoint = true}),
            (ordered_json{
                {"finished", false}, {"reason", "SIGTERM"}, {"next_step", 12}, {"steps", 30}, {"checkpoint", true}}));
  const Verification not_reached{Verification::Status::not_reached, ""};
  EXPECT_EQ(ordered_json::parse(to_json(synthetic_report(not_reached), {}))["verification"],
            (ordered_json{{"status", "not reached"}}));
  const Verification not_checked{Verification::Status::not_checked, "too short"};
  EXPECT_EQ(ordered_json::parse(to_json(synthetic_report(not_checked), {}))["verification"],
            (ordered_json{{"status", "not checked"}, {"why", "too short"}}));
}

TEST(Summary, holds_everything) {
  const Folder folder;
  SummaryInput input;
  input.date = "2026-01-02T03:04:05Z";
  input.command = {"shard8", "run"};
  input.version = {{"number", "0.1.0"}, {"git_hash", "abc"}};
  input.gpu = {{"name", "NVIDIA H200"}, {"nccl", ""}};
  input.deck = {{"model", "hidden", "256"},
                {"model", "arch", "llama", true},
                {"precision", "deterministic", "true"},
                {"data", "path", "123", true},
                {"optimizer", "lr", "0.001"}};
  input.run = {"mpi", "host", 2, "yield", "bytes of 'text'"};
  input.environment = {{"OMP_NUM_THREADS", "2"}};
  input.slurm = {{"SLURM_JOB_ID", "7"}};
  input.memory = {{"weights", 1000}, {"gathered", 2000}, {"reduction_buffers", 3000}};
  input.final_loss = 2.5;
  input.unigram_entropy = 3.5;
  input.training = {"c0ffee", "cafe", 6, 2, "run7/checkpoints/step_00000008"};
  input.inputs = {{"data", "text", 4000, 249, "0123"}, {"initial_weights", ""}};
  input.totals = {.legs = 2, .first_step = 6, .steps = 4, .trained_again = 1, .tokens = 256, .step_s = 0.5};
  write_summary(folder / "summary.json", synthetic_report({Verification::Status::failed, "too high"}, 1e16), input);
  std::ifstream in(folder / "summary.json");
  const auto s = ordered_json::parse(in);
  EXPECT_EQ(s["version"]["git_hash"], "abc");
  EXPECT_EQ(s["deck"]["model"]["hidden"], 256);
  EXPECT_EQ(s["deck"]["model"]["arch"], "llama");
  EXPECT_EQ(s["deck"]["precision"]["deterministic"], true);
  EXPECT_EQ(s["deck"]["data"]["path"], "123");
  EXPECT_EQ(s["deck"]["optimizer"]["lr"], 0.001);
  EXPECT_EQ(s["ranks"], 4);
  EXPECT_EQ(s["hosts"], (std::vector<std::string>{"node00", "node00", "node01", "node01"}));
  EXPECT_EQ(s["run"], (ordered_json{{"backend", "mpi"},
                                    {"device", "host"},
                                    {"threads_per_rank", 2},
                                    {"waiting", "yield"},
                                    {"data", "bytes of 'text'"},
                                    {"collectives", ordered_json::array()}}));
  EXPECT_EQ(s["date"], "2026-01-02T03:04:05Z");
  EXPECT_EQ(s["command"], (std::vector<std::string>{"shard8", "run"}));
  EXPECT_EQ(s["gpu"], (ordered_json{{"name", "NVIDIA H200"}, {"nccl", nullptr}}));
  EXPECT_EQ(s["environment"]["OMP_NUM_THREADS"], "2");
  EXPECT_EQ(s["loss"]["final"], 2.5);
  EXPECT_EQ(s["loss"]["unigram_entropy"], 3.5);
  EXPECT_EQ(s["slurm"]["SLURM_JOB_ID"], "7");
  EXPECT_EQ(s["steps"]["measured"], 10);
  EXPECT_EQ(s["steps"]["first"], 2);
  EXPECT_NEAR(s["steps"]["p50_s"], 0.110, 1e-12);
  ASSERT_EQ(s["phases"].size(), static_cast<std::size_t>(kTimedRows));
  EXPECT_EQ(s["phases"][4]["phase"], "forward");
  EXPECT_EQ(s["phases"][4]["part"], "gemm");
  EXPECT_EQ(s["phases"][4]["worst_rank"], 2);
  EXPECT_EQ(s["phases"][4]["worst_host"], "node01");
  ASSERT_EQ(s["collectives"].size(), 3u);
  EXPECT_EQ(s["collectives"][0]["operation"], "all_gather");
  EXPECT_EQ(s["collectives"][0]["bytes"], 8000000);
  EXPECT_NEAR(s["collectives"][0]["busbw_bytes_per_s"], 1.5e9, 1);
  EXPECT_EQ(s["memory_per_rank"][1]["kind"], "gathered");
  EXPECT_EQ(s["memory_per_rank"][1]["bytes"], 2000);
  EXPECT_EQ(s["memory_per_rank"][2], (ordered_json{{"kind", "reduction_buffers"}, {"bytes", 3000}}));
  EXPECT_NEAR(s["figures"]["fom"], 1e7 / 1.15, 1e-3);
  EXPECT_NEAR(s["figures"]["mfu"], 0.25 / 1.15, 1e-9);
  EXPECT_EQ(s["verification"]["status"], "failed");
  EXPECT_EQ(s["verification"]["why"], "too high");
  EXPECT_EQ(s["training"], (ordered_json{{"id", "c0ffee"},
                                         {"parent", "cafe"},
                                         {"parent_step", 6},
                                         {"leg", 2},
                                         {"from", "run7/checkpoints/step_00000008"}}));
  EXPECT_EQ(leg_of_summary(s.dump()), 2);
  EXPECT_EQ(s["inputs"]["data"],
            (ordered_json{{"path", "text"}, {"length", 4000}, {"samples", 249}, {"digest", "0123"}}));
  EXPECT_EQ(s["inputs"]["initial_weights"], (ordered_json{{"path", ""}}));
  EXPECT_EQ(s["totals"], ordered_json::parse(R"({"legs": 2, "first_step": 6, "steps": 4, "not_recorded": 0,
    "trained_again": 1, "tokens": 256, "step_s": 0.5, "tokens_per_s": 512.0})"));
  EXPECT_EQ(s.begin().key(), "schema");
  EXPECT_EQ(s["schema"], kSummarySchema);
}

TEST(Summary, of_a_training_without_a_parent) {
  const auto s = ordered_json::parse(to_json(synthetic_report(), SummaryInput()));
  EXPECT_TRUE(s["training"]["parent"].is_null());
  EXPECT_TRUE(s["training"]["from"].is_null());
  EXPECT_EQ(leg_of_summary("{\"schema\": 1}"), std::nullopt);
  EXPECT_EQ(leg_of_summary("{\"training\": {\"leg\": \"two\"}}"), std::nullopt);
  EXPECT_EQ(leg_of_summary("{\"training\": 3"), std::nullopt);
}

TEST(Summary, has_the_processor_and_the_time_in_flight) {
  ReportInput with{.tokens_per_step = 1};
  with.processor =
      MeasuredUse{.threads = 1, .begin = {.waited_s = 1}, .end = {.cpu_s = 1, .switches = 30, .waited_s = 2}};
  with.processor->end.at = with.processor->begin.at + std::chrono::seconds(4);
  for (const double work_s : {0.25, 0.375}) with.processor->speed.add({work_s, 0});
  const SummaryInput none{};
  const auto s = ordered_json::parse(to_json(Job().reports(3, with)[0], none));
  const std::vector<double> quarter(4, 0.25), switches(4, 7.5), work(4, 0.3125);
  EXPECT_EQ(s["processor"], (ordered_json{{"busy", true},
                                          {"worst_rank", 0},
                                          {"cpu", quarter},
                                          {"without_core", quarter},
                                          {"involuntary_switches_per_s", switches},
                                          {"other_programs", std::vector<double>(4, 0)},
                                          {"core_work_s", work},
                                          {"core_slowed", quarter}}));
  ASSERT_EQ(s["in_flight"].size(), 4u);  // synthetic_log() has three groups
  EXPECT_EQ(s["in_flight"][0]["operation"], "all_gather");
  EXPECT_EQ(s["in_flight"][0]["group"], "shard");
  EXPECT_EQ(s["in_flight"][3]["operation"], "any");
  EXPECT_EQ(s["in_flight"][3]["group"], "");
  EXPECT_FALSE(ordered_json::parse(to_json(synthetic_report(), none)).contains("processor"));
}

TEST(Summary, has_the_exchanges_of_a_tensor_group) {
  ReportInput with{.tokens_per_step = 1};
  with.methods.emplace();
  (*with.methods)[Exchange::qkv_fprop] = ExchangeMethod::bulk;
  const SummaryInput none{};
  const auto s = ordered_json::parse(to_json(Job().reports(3, with)[0], none))["exchanges"];
  ASSERT_EQ(s.size(), static_cast<std::size_t>(Exchange::routing) + 2);
  EXPECT_EQ(s[0], (ordered_json{{"exchange", "qkv_fprop"},
                                {"method", "bulk"},
                                {"min_s", 0.0},
                                {"mean_s", 0.0},
                                {"max_s", 0.0},
                                {"share", 0.0},
                                {"worst_rank", 0}}));
  EXPECT_EQ(s[2]["exchange"], "fc1_fprop");
  EXPECT_NEAR(s[2]["max_s"], 0.003, 1e-12);
  EXPECT_EQ(s.back()["exchange"], "all");
  EXPECT_FALSE(ordered_json::parse(to_json(synthetic_report(), none)).contains("exchanges"));
}

TEST(Summary, has_the_comparison_with_off) {
  Report report = synthetic_report();
  const SummaryInput none{};
  EXPECT_FALSE(ordered_json::parse(to_json(report, none)).contains("compare_off"));
  report.compare_off = CompareOff{.with = {{0.5}}, .without = {{0.25}}, .block_steps = 3, .left_out = 2};
  EXPECT_EQ(ordered_json::parse(to_json(report, none))["compare_off"], (ordered_json{{"with_s", 0.5},
                                                                                     {"without_s", 0.25},
                                                                                     {"ratio", 2.0},
                                                                                     {"blocks", 2},
                                                                                     {"steps_per_block", 3},
                                                                                     {"left_out_per_block", 2},
                                                                                     {"with_s_by_block", {0.5}},
                                                                                     {"without_s_by_block", {0.25}}}));
  report.compare_off = CompareOff{.with = {}, .without = {}, .cut_short = "SIGTERM"};
  const auto s = ordered_json::parse(to_json(report, none))["compare_off"];
  EXPECT_FALSE(s.contains("ratio"));
  EXPECT_EQ(s["blocks"], 0);
  EXPECT_EQ(s["cut_short"], "SIGTERM");
}

TEST(Summary, survives_text_that_is_no_utf8) {
  const auto text =
      to_json(synthetic_report(), {.version = {}, .deck = {}, .slurm = {{"SLURM_JOB_NAME", "caf\xe9"}}, .memory = {}});
  EXPECT_EQ(ordered_json::parse(text)["slurm"]["SLURM_JOB_NAME"], "caf\xef\xbf\xbd");
}

TEST(Summary, takes_variables_by_prefix_and_no_secrets) {
  const char* const variables[] = {
      "PATH=/bin",        "SLURM_NTASKS=4", "SLURM_JOB_ID=12=3",  "XSLURM_A=1",     "SLURM_JWT=a",
      "NCCL_DEBUG=INFO",  "UCX_TLS=",       "UCX_A_TOKEN=a",      "UCX_KEY_FILE=a", "NCCL_NO_EQUALS_SIGN",
      "NCCL_MY_SECRET=a", "UCX_PASSWORD=a", "NCCL_ALGO=Ring KEY", nullptr};
  using Found = std::vector<std::pair<std::string, std::string>>;
  const std::array<std::string_view, 1> slurm{"SLURM_"};
  EXPECT_EQ(variables_with(variables, slurm), (Found{{"SLURM_JOB_ID", "12=3"}, {"SLURM_NTASKS", "4"}}));
  const std::array<std::string_view, 3> several{"UCX_", "NCCL_", "SLURM_JOB_ID"};
  EXPECT_EQ(variables_with(variables, several),
            (Found{{"NCCL_ALGO", "Ring KEY"}, {"NCCL_DEBUG", "INFO"}, {"SLURM_JOB_ID", "12=3"}, {"UCX_TLS", ""}}));
}

}  // namespace
}  // namespace shard8::profile::tests

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/metrics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/profile/matches.hpp"

namespace shard8::profile {
namespace {

using nlohmann::ordered_json;

std::uint64_t bits(double x) { return std::bit_cast<std::uint64_t>(x); }

TEST(Metrics, a_line_keeps_order_and_every_bit) {
  const StepMetrics m{.step = 17,
                      .loss = 2.0 / 3,
                      .grad_norm = 1e-30 / 7,
                      .lr = 1e-3 / 3,
                      .tokens = 4096,
                      .step_s = 0.1 + 0.2,
                      .tokens_per_s = 1e7 / 3,
                      .run = "00000000cafe0001"};
  const auto line = ordered_json::parse(to_json_line(m));
  std::vector<std::string> keys;
  for (const auto& item : line.items()) keys.push_back(item.key());
  EXPECT_EQ(keys,
            (std::vector<std::string>{"step", "loss", "grad_norm", "lr", "tokens", "step_s", "tokens_per_s", "run"}));
  EXPECT_EQ(line["run"], "00000000cafe0001");
  EXPECT_EQ(line["step"], 17);
  EXPECT_EQ(line["tokens"], 4096);
  EXPECT_EQ(bits(line["loss"]), bits(m.loss));
  EXPECT_EQ(bits(line["grad_norm"]), bits(m.grad_norm));
  EXPECT_EQ(bits(line["lr"]), bits(m.lr));
  EXPECT_EQ(bits(line["step_s"]), bits(m.step_s));
  EXPECT_EQ(bits(line["tokens_per_s"]), bits(m.tokens_per_s));
}

TEST(Metrics, joules_are_there_only_where_they_are_known) {
  EXPECT_EQ(to_json_line({.step = 3}).find("energy"), std::string::npos);
  const auto line = ordered_json::parse(to_json_line({.step = 3, .energy_j = 12.5, .energy_steps = 4}));
  EXPECT_EQ(line["energy_j"], 12.5);
  EXPECT_EQ(line["energy_steps"], 4);
}

TEST(Metrics, norms_of_units_are_by_kind_of_unit) {
  StepMetrics m{.step = 3};
  EXPECT_EQ(to_json_line(m).find("unit_norms"), std::string::npos);
  m.unit_norms = {.embedding = 0.5, .layers = {1, 2.25}, .head = 4};
  EXPECT_EQ(ordered_json::parse(to_json_line(m))["unit_norms"].dump(),
            R"({"embedding":0.5,"layers":[1.0,2.25],"head":4.0})");
  m.unit_norms->experts = {1.0 / 3, std::nan("")};
  EXPECT_EQ(ordered_json::parse(to_json_line(m))["unit_norms"].dump(),
            R"({"embedding":0.5,"layers":[1.0,2.25],"head":4.0,"experts":[0.333333333,null]})");
  EXPECT_EQ(to_json_line(m).find("weight_norms"), std::string::npos);
  m.weight_norms = {.layers = {0, 1.0 / 3}};
  EXPECT_EQ(ordered_json::parse(to_json_line(m))["weight_norms"].dump(), R"({"layers":[0.0,0.333333333]})");
  m.weight_norms->experts = {2};
  EXPECT_EQ(ordered_json::parse(to_json_line(m))["weight_norms"].dump(),
            R"({"layers":[0.0,0.333333333],"experts":[2.0]})");
}

/// The lines of steps `first` up to but not including `end` of the training `run`.
std::string lines(std::int64_t first, std::int64_t end, std::string_view run) {
  std::string text;
  for (std::int64_t s = first; s < end; ++s) text += to_json_line({.step = s, .run = run}) + '\n';
  return text;
}

TEST(Metrics, a_run_that_goes_on_keeps_the_steps_before_it) {
  const KeptMetrics kept = metrics_before(lines(0, 9, "a"), 6, "a");
  EXPECT_EQ(kept.text, lines(0, 6, "a"));
  EXPECT_EQ(kept.warning(), "");
  EXPECT_EQ(kept.cut_back, 3);
  // The first run wrote its steps elsewhere.
  EXPECT_EQ(metrics_before(lines(4, 9, "a"), 6, "a").text, lines(4, 6, "a"));
  EXPECT_EQ(metrics_before(lines(4, 9, "a"), 6, "a").warning(),
            "4 steps have no line that can be read, the first is step 0");
  EXPECT_EQ(metrics_before("", 6, "a").warning(), "6 steps have no line that can be read, the first is step 0");
  // The training began at step 4, with the checkpoint of another one.
  EXPECT_EQ(metrics_before(lines(4, 9, "a"), 6, "a", 4).warning(), "");
}

TEST(Metrics, lines_of_another_training_are_left_out) {
  const KeptMetrics all = metrics_before(lines(0, 3, "b"), 6, "a");
  EXPECT_EQ(all.text, "");
  EXPECT_EQ(all.warning(),
            "3 lines of another training are left out; 6 steps have no line that can be read, the first is step 0");
  const KeptMetrics some = metrics_before(lines(0, 2, "a") + lines(2, 3, "b") + lines(3, 8, "a"), 6, "a");
  EXPECT_EQ(some.text, lines(0, 2, "a") + lines(3, 6, "a"));
  EXPECT_EQ(some.warning(),
            "1 line of another training is left out; 1 step has no line that can be read, the first is step 2");
  const std::string without = "{\"step\":0,\"loss\":1.5}\n";  // by hand, or by a version that wrote no run
  EXPECT_EQ(metrics_before(without, 1, "a").text, without);
}

TEST(Metrics, steps_whose_lines_are_missing_or_broken_are_told) {
  std::string broken = lines(0, 2, "a") + "{\"step\":2,\"lo\n[3]\n\n" + lines(4, 5, "a");
  EXPECT_EQ(metrics_before(broken, 5, "a").text, lines(0, 2, "a") + lines(4, 5, "a"));
  EXPECT_EQ(
      metrics_before(broken, 5, "a").warning(),
      "3 lines are no metrics of a step and left out; 2 steps have no line that can be read, the first is step 2");
  const std::string cut = lines(0, 5, "a").substr(0, lines(0, 5, "a").size() - 3);
  EXPECT_EQ(metrics_before(cut, 4, "a").warning(), "");
  EXPECT_EQ(metrics_before(cut, 5, "a").warning(), "1 step has no line that can be read, the first is step 4");
  EXPECT_EQ(metrics_before(cut, 5, "a").text, lines(0, 4, "a"));
}

// A restart reads a file of any length: here from a stream that makes 100 000 lines when they are read.
TEST(Metrics, are_read_line_by_line) {
  struct Lines : std::streambuf {
    int_type underflow() override {
      if (step == 100000) return traits_type::eof();
      line = lines(step, step + 1, "a");
      ++step;
      setg(line.data(), line.data(), line.data() + line.size());
      return traits_type::to_int_type(line.front());
    }
    std::int64_t step = 0;
    std::string line;
  };
  Lines source;
  std::istream in(&source);
  std::int64_t recorded = 0, kept_lines = 0, behind = 0;
  const KeptMetrics kept = metrics_before(
      in, 90000, "a", 0, [&](const RecordedStep&) { ++recorded; },
      [&](std::string_view line) {
        EXPECT_TRUE(line.ends_with('\n'));
        ++kept_lines;
        behind = std::max(behind, source.step - kept_lines);
      });
  EXPECT_EQ(recorded, 90000);
  EXPECT_EQ(kept_lines, 90000);
  EXPECT_EQ(kept.cut_back, 10000);
  EXPECT_EQ(kept.text, "");
  EXPECT_LE(behind, 1) << "lines are read before they are used";
  EXPECT_FALSE(kept.whole);
  EXPECT_TRUE(metrics_before(lines(0, 5, "a"), 5, "a").whole);
  EXPECT_FALSE(metrics_before(lines(0, 5, "a") + "{\"step\"", 5, "a").whole) << "a line that was cut";
  EXPECT_FALSE(metrics_before(lines(0, 6, "a"), 5, "a").whole);
  EXPECT_TRUE(metrics_before("", 5, "a").whole);
}

TEST(Metrics, lines_say_whose_they_are) {
  const auto owners = owners_of_metrics(lines(3, 9, "a") + lines(7, 8, "b") + "rubbish\n" + lines(1, 2, "a"));
  ASSERT_EQ(owners.trainings.size(), 2U);
  EXPECT_EQ(owners.trainings.at("a").first, 1);
  EXPECT_EQ(owners.trainings.at("a").last, 8);
  EXPECT_EQ(owners.trainings.at("b").first, 7);
  EXPECT_FALSE(owners.has_unnamed);
  EXPECT_TRUE(owners_of_metrics("{\"step\":0}\n").has_unnamed);
}

TEST(Metrics, what_was_recorded_is_read_back) {
  std::vector<RecordedStep> steps;
  const std::string text = to_json_line({.step = 0, .loss = 1.5, .tokens = 64, .step_s = 0.25, .run = "a"}) + '\n' +
                           to_json_line({.step = 1, .loss = std::nan(""), .run = "a"}) + '\n' + lines(2, 3, "b");
  metrics_before(text, 9, "a", 0, [&](const RecordedStep& step) { steps.push_back(step); });
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].loss, 1.5);
  EXPECT_EQ(steps[0].tokens, 64);
  EXPECT_EQ(steps[0].step_s, 0.25);
  EXPECT_TRUE(std::isnan(steps[1].loss));
}

TEST(Metrics, nan_and_infinity_are_null) {
  const auto line =
      ordered_json::parse(to_json_line({.loss = std::nan(""), .grad_norm = std::numeric_limits<double>::infinity()}));
  EXPECT_TRUE(line["loss"].is_null());
  EXPECT_TRUE(line["grad_norm"].is_null());
}

/// The text that `run` prints to the file it gets.
template <class Run>
std::string printed(Run run) {
  std::FILE* file = std::tmpfile();
  run(file);
  std::rewind(file);
  std::string text;
  for (int c = 0; (c = std::fgetc(file)) != EOF;) text += static_cast<char>(c);
  std::fclose(file);
  return text;
}

std::string run_of(bool terminal, std::int64_t steps, std::int64_t log_every, double step_s) {
  return printed([&](std::FILE* out) {
    Progress progress(out, terminal, 0, steps, log_every);
    for (std::int64_t s = 0; s < steps; ++s) {
      progress.step({.step = s,
                     .loss = 3.25,
                     .grad_norm = 1.5,
                     .lr = 1e-3,
                     .tokens = 100,
                     .step_s = step_s,
                     .tokens_per_s = 100 / step_s});
    }
  });
}

TEST(Progress, prints_plain_lines_at_intervals_and_at_both_ends) {
  std::istringstream text(run_of(false, 25, 10, 2.0));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0], "step 1/25 (4 %)  loss 3.25000  grad norm 1.5  lr 1.000e-03  50.0 tokens/s  left 0:48");
  EXPECT_EQ(lines[1], "step 10/25 (40 %)  loss 3.25000  grad norm 1.5  lr 1.000e-03  50.0 tokens/s  left 0:30");
  EXPECT_TRUE(tests::matches(lines[2], "step 20/25 .*left 0:10")) << lines[2];
  EXPECT_TRUE(tests::matches(lines[3], "step 25/25 \\(100 %\\) .*left 0:00")) << lines[3];
}

// Steps of 1 s but the seventh to ninth, of 3 s: single steps would say 100 or 33 tokens/s.
TEST(Progress, tells_the_rate_of_all_steps_since_the_line_before) {
  const std::string text = printed([](std::FILE* out) {
    Progress progress(out, false, 0, 20, 5);
    for (std::int64_t s = 0; s < 20; ++s) {
      const double step_s = s >= 6 && s < 9 ? 3 : 1;
      progress.step({.step = s, .tokens = 100, .step_s = step_s, .tokens_per_s = 100 / step_s});
    }
  });
  std::istringstream lines(text);
  std::vector<std::string> rates;
  for (std::string line; std::getline(lines, line);)
    rates.push_back(line.substr(0, line.find('/')) + line.substr(line.find("  ", line.find("lr ")), 12));
  EXPECT_EQ(rates, (std::vector<std::string>{"step 1  100.0 toke", "step 5  100.0 toke", "step 10  45.5 token",
                                             "step 15  100.0 toke", "step 20  100.0 toke"}));
}

TEST(Progress, rewrites_one_line_on_a_terminal) {
  const std::string text = run_of(true, 5, 2, 0.5);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 5);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_EQ(text.front(), '\r');
  EXPECT_EQ(text.back(), '\n');
}

TEST(Progress, short_steps_do_not_flood_a_terminal) {
  const std::string text = run_of(true, 1000, 1, 0.001);
  const auto writes = std::count(text.begin(), text.end(), '\r');
  EXPECT_GE(writes, 9);
  EXPECT_LE(writes, 12);
}

TEST(Progress, ends_the_line_when_a_run_stops_early) {
  const std::string text = printed([](std::FILE* out) {
    Progress progress(out, true, 0, 100, 1);
    progress.step({.step = 0, .step_s = 1});
  });
  EXPECT_EQ(text.back(), '\n');
}

TEST(Progress, clock_text) {
  EXPECT_EQ(clock_text(0), "0:00");
  EXPECT_EQ(clock_text(59.2), "1:00");
  EXPECT_EQ(clock_text(245), "4:05");
  EXPECT_EQ(clock_text(3723), "1:02:03");
}

}  // namespace
}  // namespace shard8::profile

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/history/history.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/utc.hpp"
#include "profile/report_files.hpp"

namespace shard8::profile::tests {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kBegin = 1800000000;  // 2027-01-15

/// Steps `first` to `last` − 1 of `seconds` each.
void add_steps(std::map<std::int64_t, double>& steps, std::int64_t first, std::int64_t last, double seconds) {
  for (std::int64_t step = first; step < last; ++step) steps[step] = seconds;
}

/// A leg with a summary: 5 s of start-up, steps of one second, 2 s of them for checkpoints, one behind the last.
LegRecord whole_leg(double began, std::int64_t first, std::int64_t next, const char* end) {
  LegRecord leg;
  leg.first_step = first;
  leg.next_step = next;
  leg.end = end;
  leg.process_began = began;
  leg.trains_from = began + 4;
  leg.start_up_s = 4;
  leg.lost_s = 0;
  const double steps_s = static_cast<double>(next - first);
  leg.ended = began + 5 + steps_s + 1 + 3;
  leg.times = LegTimes{
      .began = began, .ended = *leg.ended - 1, .start_up_s = 5, .steps_s = steps_s, .held_up_s = 2, .after_last_s = 1};
  leg.has_summary = true;
  return leg;
}

/// A leg of which training.json and metrics.jsonl alone are left.
LegRecord killed_leg(double began, std::int64_t first, std::optional<double> last_seen) {
  LegRecord leg;
  leg.first_step = first;
  leg.process_began = began;
  leg.trains_from = began + 4;
  leg.start_up_s = 4;
  leg.last_seen = last_seen;
  return leg;
}

void expect_sum(const History& h) {
  EXPECT_NEAR(h.counted_s + h.lost_s + h.held_up_s + h.start_up_s + h.gaps_s + h.other_s, h.wall_s, 1e-5);
}

TEST(Added, legs_that_stopped_and_finished) {
  std::map<std::int64_t, double> steps;
  add_steps(steps, 0, 30, 1);
  const auto h =
      add_up({whole_leg(kBegin, 0, 20, "walltime"), whole_leg(kBegin + 100, 20, 30, "finished")}, steps, true);
  ASSERT_EQ(h.legs.size(), 2u);
  EXPECT_EQ(h.legs[0].counted, 20);
  EXPECT_EQ(h.legs[0].lost, 0);
  EXPECT_EQ(h.legs[0].end, "walltime");
  EXPECT_NEAR(h.legs[0].counted_s, 18, 1e-9);  // without the hold-up
  EXPECT_NEAR(*h.legs[0].held_up_s, 3, 1e-9);
  EXPECT_NEAR(*h.legs[0].other_s, 3, 1e-5);
  EXPECT_NEAR(*h.legs[1].gap_s, 100 - 29, 1e-5);
  EXPECT_EQ(h.legs[0].notes.size() + h.legs[1].notes.size() + h.notes.size(), 0u);
  EXPECT_NEAR(h.wall_s, 119, 1e-5);
  EXPECT_NEAR(h.goodput(), (18.0 + 8) / 119, 1e-9);
  expect_sum(h);
  const std::string text = to_text(h, "out", "abc");
  EXPECT_NE(text.find("history    out, training abc, 2 legs, finished\n"), std::string::npos) << text;
  EXPECT_NE(text.find("goodput: 21.85 % of 119.000 s: 30 steps that count, 0 lost\n"), std::string::npos) << text;
  const Json json = Json::parse(to_json(h, "out", "abc"));
  EXPECT_EQ(json["began"], "2027-01-15T08:00:00.000Z");
  EXPECT_EQ(json["legs"][1]["first_step"], 20);
  EXPECT_EQ(json["legs"][0]["gap_s"], nullptr);
  EXPECT_NEAR(json["goodput"].get<double>(), 26.0 / 119, 1e-9);
}

/// A clock that went back between two legs makes a part negative and another longer than the whole.
TEST(Added, legs_whose_clocks_went_back) {
  std::map<std::int64_t, double> steps;
  add_steps(steps, 0, 30, 1);
  History negative =
      add_up({whole_leg(kBegin, 0, 20, "walltime"), whole_leg(kBegin + 100, 20, 30, "finished")}, steps, true);
  negative.wall_s = 10;
  negative.gaps_s = -1e9;
  negative.other_s = 1e9;
  const std::string text = to_text(negative, "out", "abc");
  EXPECT_NE(text.find("unknown\n"), std::string::npos) << text;
  EXPECT_NE(text.find("goodput: unknown, since clocks went back"), std::string::npos) << text;
  EXPECT_EQ(Json::parse(to_json(negative, "out", "abc"))["goodput"], nullptr);
}

/// The kernel stamps files with the time of its last tick: a leg of 70 ms that was killed ends up to 10 ms before its
/// last step did, which is more than 1 % of it.
TEST(Added, a_short_leg_whose_end_is_known_to_a_tick) {
  std::map<std::int64_t, double> steps;
  add_steps(steps, 0, 60, 0.0005);
  auto leg = killed_leg(kBegin, 0, kBegin + 0.062);
  leg.trains_from = kBegin + 0.04;
  leg.start_up_s = 0.04;
  const auto h = add_up({leg}, steps, false);
  EXPECT_NEAR(h.other_s, -0.008, 1e-6);
  EXPECT_NEAR(Json::parse(to_json(h, "out", "abc"))["goodput"].get<double>(), 0.03 / 0.062, 1e-5);
  EXPECT_EQ(to_text(h, "out", "abc").find("unknown"), std::string::npos) << to_text(h, "out", "abc");

  leg.last_seen = kBegin + 0.03;  // by more than a tick: a clock went back
  const auto back = add_up({leg}, steps, false);
  EXPECT_EQ(Json::parse(to_json(back, "out", "abc"))["goodput"], nullptr);
  leg.to_the_second = true;
  EXPECT_TRUE(add_up({leg}, steps, false).shares_are_known());
}

/// A summary does not say how much of the hold-up was in the steps that were lost.
TEST(Added, hold_up_of_a_leg_that_lost_steps_counts_once) {
  std::map<std::int64_t, double> steps;
  add_steps(steps, 0, 30, 1);
  auto first = whole_leg(kBegin, 0, 20, "run.stop_after");
  first.lost_s = 3;  // the hold-up of 2 s was in the lost step
  const auto h = add_up({first, whole_leg(kBegin + 100, 19, 30, "finished")}, steps, true);
  EXPECT_EQ(h.legs[0].lost, 1);
  EXPECT_NEAR(h.legs[0].counted_s, 19, 1e-9);
  EXPECT_NEAR(*h.legs[0].held_up_s, 1, 1e-9);  // behind the last step
  ASSERT_EQ(h.legs[0].notes.size(), 1u);
  EXPECT_EQ(h.legs[0].notes[0],
            "checkpoints held its steps up for 2.000 s, which is in counted and lost, since 1 step was lost");
  expect_sum(h);
}

TEST(Reconstructed, a_killed_leg_from_metrics_and_the_next_one) {
  std::map<std::int64_t, double> steps;
  add_steps(steps, 0, 10, 1);
  add_steps(steps, 10, 30, 1);
  auto killed = killed_leg(kBegin, 0, kBegin + 4 + 15 + 0.5);  // 15 steps, of which 5 were lost
  killed.lost_s = 5;
  auto next = whole_leg(kBegin + 60, 10, 30, "finished");
  next.trained_again = 5;
  const auto h = add_up({killed, next}, steps, true);
  EXPECT_EQ(h.legs[0].counted, 10);
  EXPECT_EQ(h.legs[0].lost, 5);
  EXPECT_EQ(h.legs[0].end, "killed or failed");
  EXPECT_NEAR(h.legs[0].counted_s, 10, 1e-9);
  EXPECT_NEAR(*h.legs[0].lost_s, 5, 1e-9);
  EXPECT_FALSE(h.legs[0].held_up_s);
  EXPECT_NEAR(*h.legs[0].other_s, 0.5, 1e-5);
  EXPECT_EQ(h.legs[0].notes.size(), 2u);
  EXPECT_NEAR(*h.legs[1].gap_s, 60 - 19.5, 1e-5);
  EXPECT_EQ(h.lost, 5);
  EXPECT_NEAR(h.goodput(), 28.0 / 89, 1e-6);
  expect_sum(h);
  EXPECT_NE(to_text(h, "out", "abc").find("leg 1: no end is recorded: reconstructed from metrics.jsonl"),
            std::string::npos);
}

TEST(Reconstructed, steps_before_an_older_checkpoint_are_lost_by_the_leg_that_trained_them) {
  // Leg 1 trains 0 to 19; leg 2 goes on from 16 to 24; the checkpoints of leg 2 are damaged: leg 3 goes on from 8.
  std::map<std::int64_t, double> steps;
  add_steps(steps, 0, 30, 1);
  auto one = killed_leg(kBegin, 0, kBegin + 24), two = killed_leg(kBegin + 50, 16, kBegin + 64);
  one.lost_s = 12;
  two.lost_s = 9;
  two.trained_again = 4;
  auto three = whole_leg(kBegin + 100, 8, 30, "finished");
  three.trained_again = 25 - 8;
  const auto h = add_up({one, two, three}, steps, true);
  EXPECT_EQ(h.legs[0].counted, 8);
  EXPECT_EQ(h.legs[0].lost, 12);
  EXPECT_EQ(h.legs[1].counted, 0);
  EXPECT_EQ(h.legs[1].lost, 9);
  EXPECT_EQ(h.legs[2].counted, 22);
  EXPECT_EQ(h.counted, 30);
  expect_sum(h);
}

TEST(Reconstructed, the_last_leg_that_is_killed_or_runs) {
  std::map<std::int64_t, double> steps;
  add_steps(steps, 0, 7, 1);
  auto h = add_up({killed_leg(kBegin, 0, kBegin + 12)}, steps, false);
  EXPECT_EQ(h.legs[0].counted, 7);
  EXPECT_EQ(h.legs[0].end, "killed or failed, or runs");
  EXPECT_NEAR(h.wall_s, 12, 1e-5);
  h = add_up({killed_leg(kBegin, 0, std::nullopt)}, {}, false);  // killed before its first step was written
  EXPECT_EQ(h.legs[0].counted, 0);
  EXPECT_NEAR(h.wall_s, 4, 1e-5);
  expect_sum(h);
}

TEST(Older, what_is_not_recorded_is_said) {
  std::map<std::int64_t, double> steps;
  add_steps(steps, 0, 20, 1);
  LegRecord first, second;
  first.next_step = 12;
  first.end = "signal";
  first.trains_from = kBegin;
  first.ended = kBegin + 15;
  first.has_summary = true;
  second = first;
  second.first_step = 10;
  second.trained_again = 2;
  second.next_step = 20;
  second.end = "finished";
  second.trains_from = kBegin + 40;
  second.ended = kBegin + 52;
  second.process_began = kBegin + 37;
  second.start_up_s = 3;
  second.to_the_second = true;
  const auto h = add_up({first, second}, steps, true);
  EXPECT_EQ(h.legs[0].lost, 2);
  EXPECT_FALSE(h.legs[0].lost_s);
  EXPECT_FALSE(h.legs[0].start_up_s);
  EXPECT_EQ(h.legs[0].notes.size(), 3u);
  EXPECT_EQ(h.legs[1].notes[0], "begin, end and start-up are known to the second (before 0.3)");
  EXPECT_NEAR(h.goodput(), 20.0 / 52, 1e-9);
  expect_sum(h);
}

TEST(Older, legs_by_the_names_of_their_files) {
  for (const char* file : {"summary.json", "summary", ".json", "a.b.csv", "x.leg_3.json"})
    for (const std::int64_t leg : {1, 2, 10}) EXPECT_EQ(leg_of_name(name_of_leg(file, leg), file), leg) << file;
  EXPECT_EQ(name_of_leg("summary.json", 2), "summary.leg_2.json");
  for (const char* name : {"summary.json", "summary.leg_.json", "summary.leg_0.json", "summary.leg_-1.json",
                           "summary.leg_02.json", "summary.leg_two.json", "summary.leg_2.csv", "summary.leg_2",
                           "summary.leg_2.json.tmp", "my_summary.leg_2.json", "summary.leg_99999999999999999999.json"})
    EXPECT_EQ(leg_of_name(name, "summary.json"), std::nullopt) << name;
}

TEST(Older, a_leg_whose_files_are_elsewhere) {
  std::map<std::int64_t, double> steps;
  add_steps(steps, 10, 20, 1);
  const auto h = add_up({LegRecord{}, whole_leg(kBegin, 10, 20, "finished")}, steps, true);
  EXPECT_EQ(h.legs[0].counted, 10);
  EXPECT_EQ(h.legs[0].counted_s, 0);
  EXPECT_NEAR(h.wall_s, 19, 1e-5);
  EXPECT_EQ(h.notes.size(), 1u);
  expect_sum(h);
}

TEST(Older, summaries_without_times_and_damaged_ones) {
  const auto old =
      read_leg_summary(R"({"schema": 2, "date": "2027-01-15T08:00:00Z", "training": {"id": "ab", "leg": 3}})", "a");
  EXPECT_FALSE(old.times);
  EXPECT_EQ(old.leg, 3);
  EXPECT_EQ(old.training, "ab");
  EXPECT_EQ(old.date, kBegin);
  EXPECT_EQ(read_leg_summary(R"({"schema": 1})", "a").leg, 0);
  for (const char* text :
       {"{", "[]", R"({"schema": 2, "leg_times": {"began": "today"}})", R"({"schema": 2, "leg_times": 3})"}) {
    try {
      read_leg_summary(text, "out/summary.json");
      ADD_FAILURE() << text;
    } catch (const base::Error& e) {
      EXPECT_EQ(e.code(), base::ExitCode::deck);
      EXPECT_EQ(std::string(e.what()).find("out/summary.json: error: is not a whole summary"), 0u);
    }
  }
}

TEST(Added, points_in_time_as_text) {
  EXPECT_EQ(base::utc_text(kBegin + 0.1234), "2027-01-15T08:00:00.123Z");
  EXPECT_NEAR(base::unix_of("2027-01-15T08:00:00.123Z").value_or(0), kBegin + 0.123, 1e-6);
  EXPECT_EQ(base::unix_of("2027-01-15T08:00:00Z"), kBegin);
  for (const char* text : {"", "2027-01-15", "2027-01-15T08:00:00", "2027-01-15T08:00:00.Z", "2027-01-15T08:00:00.1"})
    EXPECT_FALSE(base::unix_of(text)) << text;
  const double age = base::unix_now() - base::process_began();
  EXPECT_GE(age, 0);
  EXPECT_LT(age, 3600);
}

}  // namespace
}  // namespace shard8::profile::tests

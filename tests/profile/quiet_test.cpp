// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/profile/recorded_copy.hpp"

#include <utility>

namespace shard8::profile::tests {
namespace {

TEST(Compared, no_time_of_a_busy_machine_is_judged) {
  const Copy copy;
  copy.slow("step", "", 5);
  copy.slow("forward", "", 5);
  EXPECT_FALSE(copy.compared().exceeded.empty());
  const auto processor = [](bool busy) {
    return Json{{"busy", busy},
                {"worst_rank", 1},
                {"cpu", {0.9, 0.5}},
                {"without_core", {0.01, 0.45}},
                {"involuntary_switches_per_s", {3.0, 812.0}}};
  };
  copy.change([&](Json& summary) { summary["processor"] = processor(false); });
  EXPECT_FALSE(copy.compared().exceeded.empty());
  copy.change([&](Json& summary) {
    summary["processor"] = processor(true);
    for (Json& row : summary["memory_per_rank"])
      if (row["kind"] == "planned_total") row["bytes"] = 2 * row["bytes"].get<double>();
  });
  const auto c = copy.compared();
  EXPECT_EQ(c.exceeded, Texts{"memory of a rank planned_total: +100.0 %"});
  EXPECT_EQ(c.slower, Texts{});
  EXPECT_NE(to_text(copy.compared({.percent = 200}), {.percent = 200})
                .find("\nno time is judged; all else is within 200 %\n"),
            std::string::npos);
  EXPECT_EQ(figure(c, "step", "mean").verdict, ComparedFigure::Verdict::not_judged);
  EXPECT_TRUE(figure(c, "step", "mean").margin);
  EXPECT_EQ(c.notes,
            Texts{copy.path().string() +
                  ": the machine was busy, so no time is judged: rank 1 had work and no core for 45.0 % of its "
                  "time, with 812 involuntary switches/s; run it again on a quiet machine, or with fewer ranks "
                  "or threads"});
  // Ranks that had their cores, beside other programs.
  copy.change([&](Json& summary) {
    summary["processor"]["without_core"] = {0.01, 0.02};
    summary["processor"]["other_programs"] = {0.0, 0.375};
  });
  ASSERT_EQ(copy.compared().notes.size(), 1u);
  EXPECT_NE(copy.compared().notes[0].find(
                ": the machine was busy, so no time is judged: other programs took 37.5 % of the CPUs of rank 1; run"),
            std::string::npos)
      << copy.compared().notes[0];
}

TEST(Compared, no_time_of_cores_that_changed_their_speed_is_judged) {
  const Copy copy;
  copy.slow("step", "", 5);
  const auto with_work = [&](double other) {
    RecordedRun a = read_run(Copy::recorded("a")), b = read_run(copy.path());
    a.core_work_s = 4e-6;
    b.core_work_s = other;
    return std::pair(a, b);
  };
  const auto compared = [&](double other) {
    const auto [a, b] = with_work(other);
    return compare_runs(a, b, {});
  };
  EXPECT_EQ(compared(0).exceeded, Texts{"step mean: +400.0 %"});  // not known
  EXPECT_EQ(compared(4.07e-6).exceeded, Texts{"step mean: +400.0 %"});
  EXPECT_TRUE(compared(4.07e-6).notes.empty());
  for (const double other : {3.8e-6, 4.2e-6}) {
    const Comparison c = compared(other);
    EXPECT_FALSE(c.times_judged);
    EXPECT_EQ(c.exceeded, Texts{});
    EXPECT_EQ(figure(c, "step", "mean").verdict, ComparedFigure::Verdict::not_judged);
    ASSERT_EQ(c.notes.size(), 1u);
    EXPECT_NE(c.notes[0].find("4.00 us: their clock, or what shared them, was not the same, so no time is judged; "),
              std::string::npos)
        << c.notes[0];
  }
  // Another machine is compared, and its cores are named.
  auto [a, b] = with_work(4.2e-6);
  b.hosts = "other x 1";
  const Comparison c = compare_runs(a, b, {});
  EXPECT_EQ(c.exceeded, Texts{"step mean: +400.0 %"});
  ASSERT_EQ(c.notes.size(), 1u);
  EXPECT_NE(c.notes[0].find("these are not the same cores"), std::string::npos);
  // Cores that did not keep their speed.
  for (const double slowed : {0.09, 0.11}) {
    auto [even, uneven] = with_work(4e-6);
    uneven.core_slowed = slowed;
    const Comparison of_uneven = compare_runs(even, uneven, {});
    EXPECT_EQ(of_uneven.times_judged, slowed < 0.1);
    EXPECT_EQ(of_uneven.exceeded.empty(), slowed > 0.1);
    EXPECT_EQ(of_uneven.notes.size(), slowed > 0.1 ? 1u : 0u);
    for (const std::string& note : of_uneven.notes)
      EXPECT_NE(note.find(": something unseen slowed its cores by 11.0 % ("), std::string::npos) << note;
  }
  // What cores may have done is no part of a difference: the margin is larger by twice the slowdown.
  const auto [even, other] = with_work(4e-6);
  auto uneven = other;
  uneven.core_slowed = 0.03;
  const Comparison quiet = compare_runs(even, other, {}), slowed = compare_runs(even, uneven, {});
  for (const auto& [kind, name] : {std::pair("step", "mean"), {"rate", "of a rank"}}) {
    const ComparedFigure &before = figure(quiet, kind, name), &after = figure(slowed, kind, name);
    EXPECT_NEAR((*after.margin - *before.margin) / before.a.value(), 0.06, 1e-9) << name;
  }
  uneven.mean_s = 1.05 * even.mean_s;
  uneven.known = even.known->of(uneven.mean_s);
  const Comparison of_cores = compare_runs(even, uneven, {});
  EXPECT_EQ(figure(of_cores, "step", "mean").verdict, ComparedFigure::Verdict::within);
  EXPECT_EQ(figure(of_cores, "step", "mean").confidence, 0);
  // As a summary has it: the slowest rank's.
  copy.change([](Json& summary) {
    summary["processor"] = {{"busy", false}, {"core_work_s", {4e-6, 5e-6}}, {"core_slowed", {0, 0.1}}};
  });
  EXPECT_EQ(read_run(copy.path()).core_work_s, 5e-6);
  EXPECT_EQ(read_run(copy.path()).core_slowed, 0.1);
}

}  // namespace
}  // namespace shard8::profile::tests

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/profile/recorded_copy.hpp"

#include "base/error.hpp"

namespace shard8::profile::tests {
namespace {

TEST(Runs, two_equal_runs_are_within_the_limits) {
  for (const char* other : {"a", "b"}) {
    const auto c = compare_runs(read_run(Copy::recorded("a")), read_run(Copy::recorded(other)), {});
    EXPECT_EQ(c.exceeded, Texts{}) << other;
    EXPECT_EQ(c.differences.size(), 0u);
    ASSERT_TRUE(c.loss);
    EXPECT_EQ(c.loss->common, 14);
    EXPECT_FALSE(c.loss->first);
    EXPECT_NE(to_text(c, {}).find(
                  "loss: equal in all 14 common steps\nwithin 5 %, or less than is known with 95 % confidence\n"),
              std::string::npos);
  }
}

TEST(Runs, a_phase_that_is_slower_is_named) {
  for (const auto& [phase, part, name] :
       {std::tuple{"forward", "gemm", "forward gemm"}, {"backward", "", "backward"}, {"forward", "", "forward"}}) {
    const Copy copy;
    copy.slow(phase, part, 2.2);
    const auto c = copy.compared();
    EXPECT_EQ(c.exceeded, Texts{std::string("phases ") + name + ": +120.0 %"});
    EXPECT_EQ(figure(c, "phases", name).verdict, ComparedFigure::Verdict::worse);
    EXPECT_EQ(copy.compared({.percent = 121}).exceeded, Texts{});
    EXPECT_EQ(copy.compared({.percent = 121}).slower, c.exceeded);
    // The other way round it is faster, which exceeds nothing.
    const auto back = compare_runs(read_run(copy.path()), read_run(Copy::recorded("a")), {});
    EXPECT_EQ(back.exceeded, Texts{});
    EXPECT_EQ(figure(back, "phases", name).verdict, ComparedFigure::Verdict::better);
  }
}

TEST(Runs, steps_that_are_longer_are_named) {
  const Copy copy;
  copy.slow("step", "", 1.5);
  copy.change([](Json& summary) {
    summary["steps"]["p50_s"] = 2 * summary["steps"]["p50_s"].get<double>();  // a percentile is not judged
    summary["figures"]["tokens_per_s"] = summary["figures"]["tokens_per_s"].get<double>() / 1.5;
  });
  EXPECT_EQ(copy.compared().exceeded, (Texts{"step mean: +50.0 %", "rate of a rank: -33.3 %"}));
  EXPECT_EQ(figure(copy.compared(), "step", "p50").verdict, ComparedFigure::Verdict::not_judged);
}

TEST(Runs, experts_are_shown_and_not_judged) {
  const Copy copy;
  copy.change([](Json& summary) {
    summary["experts"] = {{"tokens", {{"least", 0}, {"mean", 16.0}, {"most", 40}}},
                          {"busiest", 1.5},
                          {"rounds", {{"mean", 1.25}, {"most", 2}}}};
  });
  const auto c = copy.compared();
  EXPECT_EQ(c.exceeded, Texts{});
  EXPECT_EQ(figure(c, "experts", "tokens of an expert, most by mean").b, 2.5);
  EXPECT_EQ(figure(c, "experts", "rows of the busiest rank by mean").b, 1.5);
  EXPECT_EQ(figure(c, "experts", "rounds of a layer").b, 1.25);
  EXPECT_FALSE(figure(c, "experts", "rounds of a layer").a) << "a has no experts";
  EXPECT_EQ(to_text(compare_runs(read_run(Copy::recorded("a")), read_run(Copy::recorded("b")), {}), {}).find("experts"),
            std::string::npos);
}

TEST(Runs, a_difference_that_twelve_steps_do_not_know_is_not_named) {
  const Copy copy;
  copy.slow("forward", "gemm", 1.6);
  std::string timing = "step,phase,part,min_s,mean_s,max_s,worst_rank\n";
  for (int step = 2; step < 14; ++step)
    timing += std::to_string(step) + ",forward,gemm,0.02," + (step % 7 < 3 ? "0.02" : "0.06") + ",0.04,0\n";
  copy.write("timing.csv", timing);
  EXPECT_EQ(copy.compared().exceeded, Texts{});
}

TEST(Runs, a_skeleton_has_times_and_no_losses_and_rates) {
  const Copy copy;
  copy.slow("step", "", 1.5);
  copy.change([](Json& summary) {
    summary["skeleton"] = "communication";
    summary.erase("loss");
    summary["figures"] = {{"exposed_communication", 0.25}};
    summary["deck"]["data"]["path"] = "a path that a skeleton does not read";
  });
  const auto c = copy.compared();
  for (const Difference& d : c.differences) EXPECT_NE(d.name, "data.path");
  EXPECT_EQ(c.b_skeleton, "communication");
  EXPECT_EQ(c.a_skeleton, "");
  EXPECT_FALSE(c.loss);
  EXPECT_EQ(c.exceeded, Texts{"step mean: +50.0 %"});
  for (const ComparedKind& kind : c.kinds) EXPECT_NE(kind.name, "rate");
  const std::string text = to_text(c, {});
  EXPECT_NE(text.find(", a skeleton of the communication\n"), std::string::npos);
  EXPECT_NE(text.find("it trained nothing, so losses and rates are not compared"), std::string::npos);
  const auto both = compare_runs(read_run(copy.path()), read_run(copy.path()), {});
  EXPECT_EQ(both.exceeded, Texts{});
  const Comparison all[] = {both};
  const Json json = Json::parse(to_json(all, {}));
  EXPECT_EQ(json["comparisons"][0]["a_skeleton"], "communication");
  EXPECT_TRUE(json["comparisons"][0]["loss"].is_null());
}

TEST(Compared, decks_versions_hosts_and_environment) {
  const Copy copy;
  copy.change([](Json& summary) {
    summary["deck"]["fsdp"]["prefetch"] = 0;
    summary["deck"]["output"]["dir"] = "elsewhere";
    summary["version"]["git_hash"] = "abc";
    summary["hosts"] = {"other"};
    summary["environment"]["OMP_WAIT_POLICY"] = "passive";
    summary["environment"]["SLURM_JOB_ID"] = "17";
  });
  const auto c = copy.compared();
  Texts names;
  for (const Difference& d : c.differences) names.push_back(d.what + " " + d.name + " " + d.b);
  EXPECT_EQ(names, (Texts{"deck fsdp.prefetch 0", "version git_hash abc", "hosts  other x 1",
                          "environment OMP_WAIT_POLICY passive"}));
  EXPECT_NE(to_text(c, {}).find("differs: deck fsdp.prefetch  A: 1  B: 0\n"), std::string::npos);
}

TEST(Compared, memory_and_bytes_on_the_wire) {
  const Copy copy;
  copy.change([](Json& summary) {
    for (Json& row : summary["memory_per_rank"])
      if (row["kind"] == "planned_total") row["bytes"] = 2 * row["bytes"].get<double>();
    summary["collectives"] = Json::parse(R"([{"operation": "all_gather", "group": "shard", "group_size": 2, "dtype":
      "fp32", "bytes": 100, "calls_per_step": 3, "total_s_per_step": 0.5, "exposed_s_per_step": 0.25}])");
  });
  const auto c = copy.compared();
  EXPECT_EQ(c.exceeded, Texts{"memory of a rank planned_total: +100.0 %"});
  EXPECT_EQ(figure(c, "collectives, bytes a step", "all_gather shard(2) fp32").b, 300);
  const RecordedRun fewer = read_run(copy.path());
  copy.change([](Json& summary) { summary["collectives"][0]["calls_per_step"] = 4; });
  EXPECT_EQ(compare_runs(fewer, read_run(copy.path()), {}).exceeded,
            Texts{"collectives, bytes a step all_gather shard(2) fp32: +33.3 %"});
}

/// No share of 0 can be given.
TEST(Compared, what_was_0_is_told_by_its_values) {
  const Copy none;
  none.change([](Json& summary) {
    for (Json& row : summary["memory_per_rank"])
      if (row["kind"] == "planned_total") row["bytes"] = 0;
  });
  const auto c = compare_runs(read_run(none.path()), read_run(Copy::recorded("a")), {});
  ASSERT_EQ(c.exceeded.size(), 1u);
  const auto& memory = figure(c, "memory of a rank", "planned_total");
  EXPECT_EQ(c.exceeded[0],
            fmt::format("memory of a rank planned_total: from 0 to {:.3f} MiB", *memory.b / (1024.0 * 1024)));
  const Comparison all[] = {c};
  EXPECT_EQ(Json::parse(to_json(all, {}))["comparisons"][0]["exceeded"][0], c.exceeded[0]);
}

TEST(Compared, joules_of_a_token_where_the_same_was_counted) {
  const auto with = [](double joules, const char* kind) {
    return [=](Json& summary) {
      summary["energy"] = {{"joules_per_token", joules}, {"mean_watts", 100}, {"counted", {{kind, joules}}}};
    };
  };
  const Copy a, b;
  EXPECT_THROW(figure(compare_runs(read_run(a.path()), read_run(b.path()), {}), "energy", "a token"),
               std::runtime_error);
  a.change(with(0.5, "gpu"));
  b.change(with(0.6, "gpu"));
  const auto c = compare_runs(read_run(a.path()), read_run(b.path()), {});
  EXPECT_EQ(c.exceeded, Texts{"energy a token: +20.0 %"});
  EXPECT_EQ(figure(c, "energy", "mean").verdict, ComparedFigure::Verdict::not_judged);
  a.change(with(0.004137, "gpu"));
  b.change(with(0.003235, "gpu"));
  const std::string small = to_text(compare_runs(read_run(a.path()), read_run(b.path()), {}), {});
  EXPECT_NE(small.find("0.00414"), std::string::npos) << small;
  EXPECT_NE(small.find("0.00324"), std::string::npos) << small;
  a.change(with(0.5, "gpu"));
  b.change(with(0.6, "gpu"));
  EXPECT_EQ(compare_runs(read_run(a.path()), read_run(b.path()), {.percent = 25}).exceeded, Texts{});
  b.change(with(0.6, "package"));
  EXPECT_EQ(compare_runs(read_run(a.path()), read_run(b.path()), {}).exceeded, Texts{});
  b.change([](Json& summary) {
    summary.erase("energy");
    summary["energy_missing"] = "packages: no right";
  });
  const auto missing = compare_runs(read_run(a.path()), read_run(b.path()), {});
  EXPECT_FALSE(figure(missing, "energy", "a token").b);
  EXPECT_NE(to_text(missing, {}).find("energy not read: packages: no right"), std::string::npos);
}

TEST(Compared, losses) {
  const Copy copy;
  std::string metrics = copy.text("metrics.jsonl");
  char& digit = metrics[metrics.find(R"({"step":3,"loss":)") + 28];  // the eleventh behind the point
  digit = digit == '9' ? '8' : static_cast<char>(digit + 1);
  copy.write("metrics.jsonl", metrics);
  auto c = copy.compared({.loss = 0});
  ASSERT_TRUE(c.loss && c.loss->first);
  EXPECT_EQ(*c.loss->first, 3);
  EXPECT_EQ(c.loss->largest_step, 3);
  EXPECT_GT(c.loss->largest, 0);
  EXPECT_LT(c.loss->largest, 1e-10);
  ASSERT_EQ(c.exceeded.size(), 1u);
  EXPECT_EQ(c.exceeded[0].rfind("loss: ", 0), 0u);
  EXPECT_EQ(copy.compared().exceeded, Texts{});  // by default 5 %

  // Fewer steps, and a loss that is not finite.
  metrics = copy.text("metrics.jsonl");
  metrics.resize(metrics.find(R"({"step":10,)"));
  const auto value = metrics.find(R"("loss":)", metrics.find(R"({"step":9,)")) + 7;
  metrics.replace(value, metrics.find(',', value) - value, "null");
  copy.write("metrics.jsonl", metrics);
  c = copy.compared();
  EXPECT_EQ(c.exceeded, Texts{"loss: inf relative in step 9"});
  EXPECT_EQ(c.notes, Texts{"the runs have 14 and 10 steps: losses of the 10 common ones are compared"});
}

TEST(Compared, metrics_alone) {
  const auto c = compare_runs(read_run(Copy::recorded("a") / "metrics.jsonl"), read_run(Copy::recorded("b")), {});
  EXPECT_EQ(c.loss->common, 14);
  EXPECT_EQ(c.notes.size(), 1u);
  EXPECT_EQ(c.kinds.back().name, "rate");
}

TEST(Compared, other_meshes_by_their_rate_only) {
  const Copy copy;
  copy.slow("step", "", 2);
  copy.slow("forward", "", 2);
  copy.change([](Json& summary) { summary["ranks"] = 2; });
  const auto c = copy.compared();
  EXPECT_EQ(c.exceeded, Texts{"rate of a rank: -50.0 %"});
  EXPECT_EQ(c.notes,
            Texts{"a step is not the same work for a rank in both runs: of the times, only the rate is judged"});
}

TEST(Compared, changes_are_per_cent_or_factors) {
  EXPECT_EQ(change_text(0.125), "+12.5 %");
  EXPECT_EQ(change_text(-1), "-100.0 %");
  EXPECT_EQ(change_text(8.99), "+899.0 %");
  EXPECT_EQ(change_text(9), "x 10.0");
  EXPECT_EQ(change_text(21723.34), "x 21724.3");
  const Copy copy;
  copy.slow("forward", "", 25);
  EXPECT_EQ(copy.compared().exceeded, Texts{"phases forward: x 25.0"});
}

TEST(Compared, as_json) {
  const Copy copy;
  copy.slow("forward", "", 1.75);
  const Comparison c = copy.compared();
  const Json json = Json::parse(to_json({&c, 1}, {}));
  EXPECT_EQ(json["schema"], 2);
  EXPECT_EQ(json["confidence"], 0.95);
  EXPECT_EQ(json["exceeded"], true);
  EXPECT_EQ(json["threshold_percent"], 5);
  const Json& one = json["comparisons"][0];
  EXPECT_EQ(one["exceeded"], Json({"phases forward: +75.0 %"}));
  EXPECT_EQ(one["loss"]["common_steps"], 14);
  EXPECT_EQ(one["loss"]["first_different_step"], nullptr);
  EXPECT_EQ(one["figures"]["phases"][2]["name"], "forward");
  EXPECT_EQ(one["figures"]["phases"][2]["verdict"], "worse");
  EXPECT_GT(one["figures"]["phases"][2]["confidence"], 0.99);
  EXPECT_GT(one["figures"]["phases"][2]["margin"], 0);
  EXPECT_EQ(one["figures"]["step"][1]["margin"], nullptr);
  EXPECT_EQ(one["figures"]["step"][0]["verdict"], "within");
  EXPECT_EQ(one["figures"]["step"][1]["verdict"], nullptr) << "no percentile is judged";
  for (const Json& row : one["figures"]["memory of a rank"])
    EXPECT_EQ(row["verdict"], row["name"] == "planned_total" ? Json("within") : Json(nullptr)) << row["name"];
  EXPECT_EQ(one["slower"], Json::array());
}

/// Makes a copy the summary of a projection, whose step is `times` the recorded one, with a band of 10 % around it.
void project(const Copy& copy, double times, const char* machine = "h100-sxm") {
  copy.slow("step", "", times);
  copy.change([&](Json& summary) {
    const double step = summary["phases"].back()["mean_s"].get<double>();
    summary["figures"]["tokens_per_s"] = summary["figures"]["tokens_per_s"].get<double>() / times;
    summary["hosts"] = {machine};
    summary["run"]["threads_per_rank"] = 99;
    summary["projected"] = {{"machine", machine}, {"step_s", {{"low", step / 1.1}, {"high", step * 1.1}}}};
  });
}

TEST(Projected, a_measured_mean_in_the_band_is_within) {
  const Copy copy;
  project(copy, 1.08);
  const auto measured = read_run(Copy::recorded("a")), projected = read_run(copy.path());
  EXPECT_TRUE(projected.loss.empty());  // metrics.jsonl beside it is of a run
  for (const bool first : {true, false}) {
    const auto c = first ? compare_runs(projected, measured, {}) : compare_runs(measured, projected, {});
    EXPECT_EQ(c.exceeded, Texts{});
    EXPECT_EQ(c.differences.size(), 0u);
    EXPECT_FALSE(c.loss);
    EXPECT_TRUE(c.times_judged);
    for (const auto& [kind, name] : {std::pair{"step", "mean"}, {"rate", "of a rank"}}) {
      EXPECT_TRUE(figure(c, kind, name).in_band) << kind;
      EXPECT_EQ(figure(c, kind, name).a_band.has_value(), first);
      EXPECT_EQ(figure(c, kind, name).b_band.has_value(), !first);
      EXPECT_FALSE(figure(c, kind, name).margin);
    }
    const std::string text = to_text(c, {});
    EXPECT_NE(text.find(copy.path().string() + ", projected on h100-sxm\n"), std::string::npos) << text;
    EXPECT_NE(text.find(first ? "     A projected                B " : "                A      B projected "),
              std::string::npos)
        << text;
    EXPECT_NE(
        text.find(first ? "within  (projected: A 204.743 to 247.739)" : "within  (projected: B 204.743 to 247.739)"),
        std::string::npos)
        << text;
    EXPECT_NE(text.find(": projected on h100-sxm: nothing ran, so losses and verification are not compared, and phases "
                        "are not judged\n"),
              std::string::npos);
    const Json json = Json::parse(to_json({&c, 1}, {}))["comparisons"][0];
    EXPECT_EQ(json[first ? "a_projected_on" : "b_projected_on"], "h100-sxm");
    EXPECT_FALSE(json.contains(first ? "b_projected_on" : "a_projected_on"));
    EXPECT_NEAR(json["figures"]["step"][0][first ? "a_band" : "b_band"][1].get<double>(), 0.2477386, 1e-6);
  }
}

TEST(Projected, a_measured_mean_beyond_the_band_is_judged) {
  const Copy copy;
  project(copy, 0.8);  // up to 0.88 of what was measured
  const auto measured = read_run(Copy::recorded("a")), projected = read_run(copy.path());
  EXPECT_EQ(compare_runs(projected, measured, {}).exceeded, (Texts{"step mean: +25.0 %", "rate of a rank: -20.0 %"}));
  const auto back = compare_runs(measured, projected, {});
  EXPECT_EQ(back.exceeded, Texts{});
  EXPECT_EQ(figure(back, "step", "mean").verdict, ComparedFigure::Verdict::better);
  const auto within = compare_runs(projected, measured, {.percent = 26});
  EXPECT_EQ(within.exceeded, Texts{});
  EXPECT_EQ(within.slower.size(), 2u);
}

TEST(Projected, phases_are_shown_and_not_judged) {
  const Copy copy;
  project(copy, 1);
  copy.slow("forward", "", 3);
  const auto c = copy.compared();
  EXPECT_EQ(c.exceeded, Texts{});
  EXPECT_EQ(figure(c, "phases", "forward").verdict, ComparedFigure::Verdict::not_judged);
}

TEST(Projected, two_projections_by_their_bands) {
  const Copy one, other;
  EXPECT_NE(one.path(), other.path());
  project(one, 1);
  project(other, 1.15, "h200-sxm");  // 1.15 / 1.1 is below 1.1
  auto c = compare_runs(read_run(one.path()), read_run(other.path()), {});
  EXPECT_EQ(c.exceeded, Texts{});
  EXPECT_TRUE(figure(c, "step", "mean").in_band);
  EXPECT_EQ(c.notes.size(), 2u);
  EXPECT_EQ(c.b_projected, "h200-sxm");
  project(other, 1.2);
  c = compare_runs(read_run(one.path()), read_run(other.path()), {});
  EXPECT_EQ(c.exceeded, (Texts{"step mean: +38.0 %", "rate of a rank: -27.5 %"}));
}

TEST(Projected, no_time_of_a_busy_machine_is_judged) {
  const Copy copy;
  project(copy, 0.5);
  auto measured = read_run(Copy::recorded("a"));
  measured.busy = "busy";
  const auto c = compare_runs(read_run(copy.path()), measured, {});
  EXPECT_EQ(c.exceeded, Texts{});
  EXPECT_FALSE(c.times_judged);
  EXPECT_FALSE(figure(c, "step", "mean").in_band);
}

void expect_refused(const fs::path& path, const std::string& message) {
  try {
    read_run(path);
    ADD_FAILURE() << "no error for " << path;
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::deck);
    EXPECT_EQ(std::string(e.what()), message);
  }
}

void expect_refused_for(const fs::path& path, const std::string& part) {
  try {
    static_cast<void>(read_run(path));
    ADD_FAILURE() << "no error for " << path;
  } catch (const base::Error& e) {
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

TEST(Refused, a_summary_that_is_nested_deeply) {
  const Copy copy;
  copy.write("summary.json", "{\"deck\": " + std::string(100000, '[') + std::string(100000, ']') + "}");
  expect_refused_for(copy.path(), "its values are nested more than 64 deep");
}

TEST(Refused, missing_files) {
  const Copy copy;
  const std::string path = copy.path().string();
  expect_refused(path + "/no", path + "/no: error: there is no such file or folder; give an output folder of a run");
  fs::remove(path + "/summary.json");
  expect_refused(path, path +
                           ": error: has metrics.jsonl but no summary.json: the run is not over or failed; to compare "
                           "its losses only, give " +
                           path + "/metrics.jsonl");
  fs::remove(path + "/metrics.jsonl");
  expect_refused_for(path,
                     "has no summary.json; give an output folder of a run, or its summary file if output.summary");
  copy.write("training.json", R"({"deck": [{"key": "output.summary", "value": "run.json"}]})");
  expect_refused_for(path, "has no run.json; give an output folder");
  copy.write("run.json", Copy().text("summary.json"));
  EXPECT_GT(read_run(path).mean_s, 0);
}

TEST(Refused, a_projection_without_a_band) {
  const Copy copy;
  project(copy, 1);
  copy.change([](Json& summary) { summary["projected"]["step_s"]["low"] = 1; });
  EXPECT_THROW(read_run(copy.path()), base::Error);
  copy.change([](Json& summary) { summary["projected"].erase("step_s"); });
  EXPECT_THROW(read_run(copy.path()), base::Error);
}

TEST(Refused, half_written_files) {
  const Copy copy;
  const std::string path = copy.path().string();
  for (const char* file : {"timing.csv", "metrics.jsonl", "summary.json"}) {
    const std::string whole = copy.text(file);
    copy.write(file, whole.substr(0, whole.size() / 2 + 5));
    if (file == std::string("summary.json"))
      expect_refused_for(path, "/summary.json: error: is not complete JSON: parse error at line ");
    else
      EXPECT_THROW(read_run(path), base::Error) << file;
    copy.write(file, whole);
  }
  copy.write("metrics.jsonl", R"({"step":0,"loss":5.5,"tokens":512,"step_s":0.1})");
  expect_refused(path, path +
                           "/metrics.jsonl: error: line 1 is cut short: the run is not over or was killed; run it "
                           "again");
}

TEST(Refused, a_missing_or_wrong_key_by_its_name) {
  const auto refused = [](const std::function<void(Json&)>& edit, const std::string& problem) {
    const Copy copy;
    copy.change(edit);
    expect_refused(copy.path(), copy.path().string() + "/summary.json: error: is not a whole summary of a run: " +
                                    problem + "; run it again");
  };
  refused([](Json& summary) { summary.erase("version"); }, "it has no 'version'");
  refused([](Json& summary) { summary["steps"]["p50_s"] = nullptr; }, "'steps.p50_s' is null, not a number");
  refused([](Json& summary) { summary["steps"].erase("p50_s"); }, "it has no 'steps.p50_s'");
  refused([](Json& summary) { summary["phases"][1]["mean_s"] = "1"; }, "'phases[1].mean_s' is \"1\", not a number");
  refused([](Json& summary) { summary["phases"] = 1; }, "'phases' is 1, not a list");
  refused([](Json& summary) { summary["deck"] = 1; }, "'deck' is 1, not an object");
  refused(
      [](Json& summary) {
        summary["processor"] = {{"busy", true}, {"worst_rank", 9}, {"without_core", {0.5}}};
      },
      "'processor.without_core' has 1 elements, not 10 or more");
  // Whatever is left out or changed, no text of the JSON library is shown.
  const Copy whole;
  const Json summary = Json::parse(whole.text("summary.json"));
  for (const auto& [key, value] : summary.items())
    for (const Json& other : {Json(nullptr), Json(7), Json("x"), Json::array({1}), Json{{"a", 1}}}) {
      const Copy copy;
      copy.change([&key = key, &other](Json& changed) { changed[key] = other; });
      try {
        static_cast<void>(read_run(copy.path()));
      } catch (const base::Error& e) {
        EXPECT_EQ(std::string(e.what()).find("json.exception"), std::string::npos) << e.what();
        EXPECT_NE(std::string(e.what()).find(key), std::string::npos) << e.what();
      }
    }
}

TEST(Refused, a_sweep_of_many_meshes) {
  const Copy copy;
  copy.write("summary.json", R"({"schema": 1, "ranks": 64, "projected": {}, "meshes": []})");
  expect_refused(copy.path(), copy.path().string() +
                                  "/summary.json: error: is a sweep of many meshes, not a run: give a run, or a "
                                  "projection of one mesh (shard8 project without --sweep)");
}

TEST(Refused, times_that_are_not_finite) {
  for (const char* time : {"nan", "inf", "-inf"}) {
    const Copy copy;
    copy.write("timing.csv", copy.text("timing.csv") + "99,forward,," + time + "," + time + "," + time + ",0\n");
    EXPECT_THROW(read_run(copy.path()), base::Error) << time;
  }
}

TEST(Refused, another_schema) {
  const Copy copy;
  copy.change([](Json& summary) { summary["schema"] = 7; });
  expect_refused(copy.path(), copy.path().string() +
                                  "/summary.json: error: has schema version 7, this program reads 1 to 2: "
                                  "use the program that wrote it, or run it again");
  copy.change([](Json& summary) { summary.erase("schema"); });  // as the first versions wrote it
  EXPECT_TRUE(read_run(copy.path()).has_summary);
  copy.change([](Json& summary) { summary.erase("figures"); });
  EXPECT_THROW(read_run(copy.path()), base::Error);
}

}  // namespace
}  // namespace shard8::profile::tests

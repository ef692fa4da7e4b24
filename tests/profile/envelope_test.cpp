// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/compare/comparison.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace shard8::profile::tests {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kEnvelope = R"({"schema": 1, "commit": "0123456789abcdef", "date": "2026-11-27", "roundings": {
  "fp32": {"pairs": 7, "loss": {"bound": [1e-6, 1e-6, 4e-6]}, "grad_norm": {"bound": [1e-4, 2e-4, 2e-4]},
           "unit_norm": {"bound": [1e-3, 2e-3, 2e-3]}}}})";

/// An envelope's file with this text, as long as it lives.
class File {
 public:
  explicit File(const std::string& text)
      : path_(fs::path(testing::TempDir()) / ("shard8_envelope_" + std::to_string(::getpid()) + ".json")) {
    std::ofstream(path_) << text;
  }
  ~File() { fs::remove(path_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

Envelope envelope() { return read_envelope(File(kEnvelope).path()); }

RecordedRun run(const std::string& name) {
  RecordedRun run{.name = name, .has_summary = true};
  run.deck = {{"fp8.recipe", "none"},      {"precision.compute", "fp32"}, {"precision.reduce", "fp32"},
              {"mesh.tensor", "1"},        {"optimizer.lr", "0.001"},     {"data.path", "text.txt"},
              {"data.batch_per_rank", "0"}};
  for (std::int64_t step = 0; step < 3; ++step) {
    run.loss[step] = 4;
    run.grad_norm[step] = 2;
    run.unit_norms.by_step[step] = {0, 1, 1.5, 1};
  }
  run.unit_norms.units = {"embedding", "layer 0", "layer 1", "head"};
  return run;
}

void set(RecordedRun& run, const std::string& key, const std::string& value) {
  for (auto& [name, text] : run.deck)
    if (name == key) text = value;
}

bool mesh(const std::string& key) { return key.starts_with("mesh."); }

EnvelopeVerdict judged(const RecordedRun& a, const RecordedRun& b) { return judge_by_envelope(a, b, envelope(), mesh); }

template <class Action>
std::string refused(Action&& action) {
  try {
    action();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::ExitCode::deck);
    return error.what();
  }
  return "not refused";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Envelope, equal_runs_are_inside) {
  const auto v = judged(run("a"), run("b"));
  EXPECT_FALSE(v.outside);
  EXPECT_FALSE(v.largest);
  EXPECT_EQ(v.judged, 3);
  EXPECT_EQ(v.pairs, 7);
  EXPECT_EQ(v.rounding, "fp32");
  EXPECT_TRUE(has(to_text(v), "inside: equal bit for bit")) << to_text(v);
  EXPECT_TRUE(has(to_text(v), "0123456789ab, 2026-11-27")) << to_text(v);
}

TEST(Envelope, the_largest_share_of_a_bound_is_named) {
  RecordedRun b = run("b");
  set(b, "mesh.tensor", "2");
  b.loss[2] = 4 * (1 - 1e-6);       // a quarter
  b.grad_norm[1] = 2 * (1 - 1e-4);  // a half
  const auto v = judged(run("a"), b);
  EXPECT_FALSE(v.outside);
  ASSERT_TRUE(v.largest);
  EXPECT_EQ(v.largest->figure, "grad_norm");
  EXPECT_EQ(v.largest->step, 1);
  EXPECT_NEAR(v.largest->share(), 0.5, 1e-6);
  EXPECT_TRUE(has(to_text(v), "inside: at most 50 % of the bound: grad_norm in step 1")) << to_text(v);
}

TEST(Envelope, the_first_step_outside_is_named_with_its_values) {
  RecordedRun b = run("b");
  b.loss[1] = 4 * (1 - 1.5e-6);
  b.loss[2] = 3;
  b.grad_norm[2] = 1;
  const auto v = judged(run("a"), b);
  ASSERT_TRUE(v.outside);
  EXPECT_EQ(v.outside->step, 1);
  EXPECT_EQ(v.outside->figure, "loss");
  EXPECT_DOUBLE_EQ(v.outside->bound, 1e-6);
  EXPECT_TRUE(has(to_text(v), "OUTSIDE: loss in step 1: A 4, B 3.999994, relative difference 1.50e-06, bound 1.00e-06"))
      << to_text(v);
  const Json json = Json::parse(to_json(std::span(&v, 1)));
  EXPECT_EQ(json["inside"], false);
  EXPECT_EQ(json["comparisons"][0]["first_outside"]["step"], 1);
  EXPECT_EQ(json["comparisons"][0]["first_outside"]["figure"], "loss");
}

TEST(Envelope, norms_are_judged_as_well) {
  RecordedRun b = run("b");
  b.grad_norm[0] = 2.001;
  ASSERT_TRUE(judged(run("a"), b).outside);
  EXPECT_EQ(judged(run("a"), b).outside->figure, "grad_norm");
}

TEST(Envelope, a_unit_whose_norm_is_outside_is_named) {
  RecordedRun b = run("b");
  b.unit_norms.by_step[1][2] = 1.5 * (1 + 3e-3);
  b.unit_norms.by_step[2][1] = 2;
  const auto v = judged(run("a"), b);
  ASSERT_TRUE(v.outside);
  EXPECT_EQ(v.outside->step, 1);
  EXPECT_EQ(v.outside->figure, "grad_norm of layer 1");
  EXPECT_DOUBLE_EQ(v.outside->bound, 2e-3);
  EXPECT_TRUE(v.notes.empty());
  b.unit_norms.by_step[1][1] = 1.01;  // by less than the first layer above
  b.unit_norms.by_step[1][0] = 1e-9;  // from 0
  EXPECT_EQ(judged(run("a"), b).outside->figure, "grad_norm of embedding");
  b.unit_norms.by_step[1][0] = 0;
  b.unit_norms.by_step[1][2] = 2;
  EXPECT_EQ(judged(run("a"), b).outside->figure, "grad_norm of layer 1");
  b.loss[1] = 5;
  const auto by_loss = judged(run("a"), b);
  EXPECT_EQ(by_loss.outside->figure, "loss");
  ASSERT_TRUE(by_loss.unit);
  EXPECT_EQ(by_loss.unit->figure, "grad_norm of layer 1");
  EXPECT_TRUE(has(to_text(by_loss), "of its layers most: grad_norm of layer 1 in step 1")) << to_text(by_loss);
  EXPECT_EQ(Json::parse(to_json(std::span(&by_loss, 1)))["comparisons"][0]["unit_outside"]["figure"],
            "grad_norm of layer 1");
  b = run("b");
  b.unit_norms.by_step[2][1] = 2;
  b.unit_norms.by_step[1][2] = 1.5 * (1 + 1e-3);
  EXPECT_EQ(judged(run("a"), b).outside->step, 2);
  b.unit_norms.by_step[2][1] = 1;
  EXPECT_EQ(judged(run("a"), b).largest->figure, "grad_norm of layer 1");
}

TEST(Envelope, bounds_that_no_difference_exceeds_are_said) {
  Envelope wide = envelope();
  wide.roundings.at("fp32").unit_norm = {1e-3, 1.5, 1.5};
  RecordedRun b = run("b");
  b.unit_norms.by_step[1][2] = 100;
  b.grad_norm[0] = 2 * (1 - 1e-5);
  const auto v = judge_by_envelope(run("a"), b, wide, mesh);
  EXPECT_FALSE(v.outside);
  EXPECT_EQ(v.largest->figure, "grad_norm");
  EXPECT_EQ(v.notes, std::vector<std::string>{"grad_norm of layers: right runs differ by any amount from step 1 on, so "
                                              "it is not judged there"});
  b.grad_norm[0] = 2;
  const auto equal_before = judge_by_envelope(run("a"), b, wide, mesh);
  EXPECT_FALSE(equal_before.largest);
  EXPECT_TRUE(has(to_text(equal_before), "inside: equal where bounds are below 1\n")) << to_text(equal_before);
  b.unit_norms.by_step[2][2] = std::nan("");
  EXPECT_EQ(judge_by_envelope(run("a"), b, wide, mesh).outside->figure, "grad_norm of layer 1");
}

TEST(Envelope, what_has_no_norms_of_units_is_judged_without_and_says_so) {
  RecordedRun a = run("a"), b = run("b");
  b.unit_norms.by_step[1][2] = 9;
  b.unit_norms.by_step.erase(2);
  EXPECT_FALSE(judged(a, b).outside);
  EXPECT_EQ(judged(a, b).notes,
            std::vector<std::string>{"b has no unit_norms in step 2: norms of single layers are not judged"});
  b.unit_norms.by_step[2] = {1, 2};
  EXPECT_EQ(judged(a, b).notes,
            std::vector<std::string>{"b has 2 of 4 unit_norms in step 2: norms of single layers are not judged"});
  Envelope early = envelope();
  early.roundings.at("fp32").unit_norm.clear();
  EXPECT_EQ(judge_by_envelope(a, run("b"), early, mesh).notes,
            std::vector<std::string>{"the envelope has no bounds of unit_norm: norms of single layers are not judged"});
  b = run("b");
  b.unit_norms.by_step[3] = {};  // behind the last bound
  b.loss[3] = a.loss[3] = b.grad_norm[3] = a.grad_norm[3] = 1;
  EXPECT_TRUE(judged(a, b).notes.empty());
}

TEST(Envelope, norms_of_weights_are_judged_where_both_runs_keep_weights_in_FP8) {
  Envelope bounded = envelope();
  RecordedRun a = run("a"), b = run("b");
  const auto judge = [&] { return judge_by_envelope(a, b, bounded, mesh); };
  for (RecordedRun* r : {&a, &b}) {
    r->weight_norms.units = {"layer 0", "layer 1"};
    for (std::int64_t step = 0; step < 3; ++step) r->weight_norms.by_step[step] = {0, 2};
  }
  b.weight_norms.by_step[1] = {0, 2.1};
  EXPECT_EQ(judge().notes, std::vector<std::string>{
                               "the envelope has no bounds of weight_norm: norms of weights in FP8 are not judged"});
  bounded.roundings.at("fp32").weight_norm = {1e-2, 1e-2, 1e-2};
  ASSERT_TRUE(judge().outside);
  EXPECT_EQ(judge().outside->figure, "weights of layer 1");
  EXPECT_EQ(judge().outside->step, 1);
  EXPECT_EQ(judge().unit->figure, "weights of layer 1");
  EXPECT_TRUE(judge().notes.empty());
  b.unit_norms.by_step[1][1] = 1.5;  // by a larger share of its bound
  EXPECT_EQ(judge().unit->figure, "grad_norm of layer 0");
  b = run("b");
  EXPECT_EQ(judge().notes,
            std::vector<std::string>{"b has no weight_norms in step 0: norms of weights in FP8 are not judged"});
  a = run("a");
  EXPECT_TRUE(judge().notes.empty()) << "neither keeps weights in FP8";
  for (RecordedRun* r : {&a, &b}) set(*r, "fp8.recipe", "delayed");
  bounded.roundings["delayed"] = bounded.roundings.at("fp32");
  EXPECT_TRUE(judge().notes.empty()) << "both cast weights for each gather";
  b.deck.emplace_back("fp8.weights", "fp8");
  a.deck.emplace_back("fp8.weights", "fp8");
  EXPECT_EQ(judge().notes,
            std::vector<std::string>{"a has no weight_norms in step 0: norms of weights in FP8 are not judged"});
}

TEST(Envelope, steps_behind_the_last_bound_are_not_judged) {
  RecordedRun a = run("a"), b = run("b");
  for (RecordedRun* r : {&a, &b})
    for (std::int64_t step = 3; step < 5; ++step) r->loss[step] = r->grad_norm[step] = r == &a ? 1 : 2;
  b.loss[5] = b.grad_norm[5] = 1;
  const auto v = judged(a, b);
  EXPECT_FALSE(v.outside);
  EXPECT_EQ(v.judged, 3);
  EXPECT_EQ(v.not_judged, 2);
  EXPECT_TRUE(has(to_text(v), "not judged: 2 steps after them")) << to_text(v);
  EXPECT_TRUE(has(to_text(v), "A has 5 steps, B 6 steps")) << to_text(v);
}

TEST(Envelope, a_loss_that_is_not_finite_in_one_run_is_outside) {
  RecordedRun b = run("b");
  b.loss[2] = std::nan("");
  ASSERT_TRUE(judged(run("a"), b).outside);
  EXPECT_EQ(judged(run("a"), b).outside->step, 2);
}

TEST(Envelope, norms_of_units_are_read_from_the_metrics) {
  const fs::path folder = fs::path(testing::TempDir()) / ("shard8_units_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  const auto line = [](int step, const char* more) {
    return "{\"step\": " + std::to_string(step) + R"(, "loss": 1, "grad_norm": 1, "tokens": 8, "step_s": 1)" + more +
           "}\n";
  };
  std::ofstream(folder / "metrics.jsonl")
      << line(0, "")
      << line(1, R"(, "unit_norms": {"embedding": 0, "layers": [1, 2, 3], "head": 4, "experts": [5, null]})"
                 R"(, "weight_norms": {"layers": [0, 7, 8], "experts": [9, 10]})")
      << line(1000, R"(, "unit_norms": {"embedding": 0, "layers": [1, 2, 3], "head": 4, "experts": [5, 6]})");
  const RecordedRun read = read_run(folder / "metrics.jsonl");
  EXPECT_EQ(read.unit_norms.units, (std::vector<std::string>{"embedding", "layer 0", "layer 1", "layer 2", "head",
                                                             "experts of layer 1", "experts of layer 2"}));
  ASSERT_EQ(read.unit_norms.by_step.size(), 1U);
  ASSERT_EQ(read.unit_norms.by_step.at(1).size(), 7U);
  EXPECT_EQ(read.unit_norms.by_step.at(1)[5], 5);
  EXPECT_TRUE(std::isnan(read.unit_norms.by_step.at(1)[6]));
  EXPECT_EQ(read.weight_norms.units,
            (std::vector<std::string>{"layer 0", "layer 1", "layer 2", "experts of layer 1", "experts of layer 2"}));
  EXPECT_EQ(read.weight_norms.by_step.at(1), (std::vector<double>{0, 7, 8, 9, 10}));
  std::ofstream(folder / "metrics.jsonl") << line(0, R"(, "unit_norms": {"embedding": 0, "layers": 1, "head": 4})");
  EXPECT_TRUE(has(refused([&] { read_run(folder / "metrics.jsonl"); }), "unit_norms.layers"));
  fs::remove_all(folder);
}

TEST(Refused, two_trainings_with_the_key_that_differs) {
  RecordedRun b = run("b");
  set(b, "optimizer.lr", "0.002");
  const std::string text = refused([&] { judged(run("a"), b); });
  EXPECT_TRUE(has(text, "b: error: optimizer.lr is 0.001 in a, here 0.002")) << text;
}

TEST(Refused, other_paths_are_noted_and_not_refused) {
  RecordedRun b = run("b");
  set(b, "data.path", "/elsewhere/text.txt");
  set(b, "data.batch_per_rank", "2");
  const auto v = judged(run("a"), b);
  ASSERT_EQ(v.notes.size(), 1U);
  EXPECT_EQ(v.notes[0], "data.path is text.txt and /elsewhere/text.txt: taken for the same content");
}

TEST(Refused, runs_without_what_is_needed) {
  const auto text_of = [](auto&& change) {
    RecordedRun b = run("b");
    change(b);
    return refused([&] { judged(run("a"), b); });
  };
  EXPECT_TRUE(has(text_of([](RecordedRun& r) { r.loss.erase(1); }), "step 1 is missing"));
  EXPECT_TRUE(has(text_of([](RecordedRun& r) { r.loss.erase(0); }), "step 0 is missing"));
  EXPECT_TRUE(has(text_of([](RecordedRun& r) { r.loss.clear(); }), "has no metrics.jsonl"));
  EXPECT_TRUE(has(text_of([](RecordedRun& r) { r.has_summary = false; }), "has no summary.json"));
  EXPECT_TRUE(has(text_of([](RecordedRun& r) { r.skeleton = "communication"; }), "a skeleton of the communication"));
  EXPECT_TRUE(has(text_of([](RecordedRun& r) { r.projected = {"machine", 1, 2}; }), "it was projected"));
  RecordedRun a = run("a"), b = run("b");
  a.loss[0] = b.loss[0] = std::nan("");
  EXPECT_TRUE(has(refused([&] { judged(a, b); }), "loss of step 0 is finite in neither run"));
}

TEST(Refused, a_rounding_without_bounds) {
  RecordedRun a = run("a"), b = run("b");
  for (RecordedRun* r : {&a, &b}) set(*r, "fp8.recipe", "block");
  EXPECT_TRUE(has(refused([&] { judged(a, b); }), "has no bounds for trainings in block"));
}

TEST(Refused, files_that_are_no_envelopes) {
  const auto text_of = [](const std::string& text) {
    const File file(text);
    return refused([&] { read_envelope(file.path()); });
  };
  const auto with = [](const char* what, const char* by) {
    std::string text = kEnvelope;
    text.replace(text.find(what), std::string_view(what).size(), by);
    return text;
  };
  EXPECT_TRUE(has(text_of("{"), "is no envelope"));
  EXPECT_TRUE(has(text_of(R"({"roundings": {}})"), "is no envelope"));
  EXPECT_TRUE(has(text_of(with("\"schema\": 1", "\"schema\": 2")), "has schema version 2, this program reads 1"));
  EXPECT_TRUE(has(text_of(with("4e-6", "1e-7")), "fp32 loss: the bound of step 2 is 1e-07"));
  EXPECT_TRUE(has(text_of(with("1e-4,", "")), "3 bounds of loss, 2 of grad_norm"));
  EXPECT_TRUE(has(text_of(with("[1e-3, 2e-3, 2e-3]", "[1e-3]")), "3 bounds of loss, 1 of unit_norm"));
  EXPECT_TRUE(
      has(refused([] { read_envelope("/nowhere/envelope.json"); }), "/nowhere/envelope.json: error: cannot be read"));
}

TEST(Shipped, has_bounds_for_every_rounding) {
  const Envelope shipped = shipped_envelope();
  for (const char* rounding : {"fp32", "fp32, reduce bf16", "bf16", "delayed", "current", "block", "mxfp8"}) {
    ASSERT_TRUE(shipped.roundings.contains(rounding)) << rounding;
    EXPECT_GE(shipped.roundings.at(rounding).loss.size(), 20U) << rounding;
    EXPECT_EQ(shipped.roundings.at(rounding).unit_norm.size(), shipped.roundings.at(rounding).loss.size()) << rounding;
    EXPECT_GE(shipped.roundings.at(rounding).pairs, 1000) << rounding;
  }
}

TEST(Shipped, roundings_have_names) {
  EXPECT_EQ(rounding_of("delayed", "bf16", "fp32"), "delayed");
  EXPECT_EQ(rounding_of("none", "bf16", "bf16"), "bf16");
  EXPECT_EQ(rounding_of("none", "fp32", "bf16"), "fp32, reduce bf16");
  EXPECT_EQ(rounding_of("none", "fp32", "fp32"), "fp32");
}

}  // namespace
}  // namespace shard8::profile::tests

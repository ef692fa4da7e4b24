// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "deck/load.hpp"
#include "deck/overlap.hpp"
#include "model/dims.hpp"
#include "train/overlap/choice.hpp"
#include "train/training_file.hpp"

namespace shard8::train {
namespace {

using profile::Exchange;
using Method = profile::ExchangeMethod;
using Row = profile::OverlapChoice::Row;
using Times = std::vector<double>;

deck::Config deck_with(const std::string& more, const std::vector<std::string>& overrides = {}) {
  return deck::load_text(
             "model: {arch: llama, hidden: 64, ffn: 64, layers: 2, heads: 4, vocab: 67, seq: 32}\n"
             "mesh: {tensor: 2}\noptimizer: {lr: 0.01}\ndata: {kind: synthetic, batch: 32, micro_batch: 16}\n"
             "run: {steps: 1}\n" +
                 more,
             "choice.yaml", overrides)
      .config;
}

deck::Config with_choice(deck::Config config, const profile::OverlapChoice& choice) {
  config.overlap.methods = choice.resolve(config.overlap.methods);
  return config;
}

std::vector<std::string> keys_of(const std::vector<Row>& rows) {
  std::vector<std::string> keys;
  for (const Row& row : rows) keys.emplace_back(name_of(row.exchange));
  return keys;
}

TEST(Pays, what_is_faster) {
  EXPECT_TRUE(pays(Times{10, 10, 10}, Times{9, 9, 9}));
  EXPECT_TRUE(pays(Times{10, 10, 10}, Times{9.9, 9.9, 9.9})) << "by 1 %";
  EXPECT_FALSE(pays(Times{9, 9, 9}, Times{10, 10, 10}));
  EXPECT_FALSE(pays(Times{10, 10, 10}, Times{10, 10, 10}));
}

TEST(Pays, not_what_is_within_the_noise) {
  EXPECT_FALSE(pays(Times{10, 10, 10}, Times{9.95, 9.95, 9.95})) << "by 0.5 %";
  EXPECT_FALSE(pays(Times{10, 12, 8, 11}, Times{9, 13, 7.9, 11.5})) << "faster in half of the blocks";
  EXPECT_FALSE(pays(Times{10, 10, 20}, Times{11, 11, 1})) << "faster once, and by far";
}

/// A block that something disturbed does not decide.
TEST(Pays, one_disturbed_block) {
  EXPECT_TRUE(pays(Times{10, 10, 10, 10, 10}, Times{9, 9, 99, 9, 9}));
  EXPECT_FALSE(pays(Times{10, 10, 99, 10, 10}, Times{10, 10, 10, 10, 10}));
}

/// The machine becomes slower from block to block, by more than what the method gains.
TEST(Pays, drift) {
  EXPECT_TRUE(pays(Times{10, 12, 14, 16, 18}, Times{9, 11, 13, 15, 17}));
  EXPECT_FALSE(pays(Times{10, 12, 14, 16, 18}, Times{10.1, 12.1, 14.1, 16.1, 18.1}));
}

TEST(Pays, what_is_no_time) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinite = std::numeric_limits<double>::infinity();
  for (const double bad : {nan, infinite, -infinite}) {
    EXPECT_FALSE(pays(Times{10, 10, bad}, Times{9, 9, 9}));
    EXPECT_FALSE(pays(Times{10, 10, 10}, Times{9, 9, bad}));
  }
  EXPECT_THROW(static_cast<void>(pays(Times{}, Times{})), base::Error);
  EXPECT_THROW(static_cast<void>(pays(Times{1}, Times{1, 1})), base::Error);
}

TEST(AutoKeys, rows) {
  EXPECT_TRUE(auto_rows(deck_with("")).empty()) << "overlap is not enabled";
  EXPECT_TRUE(auto_rows(deck_with("overlap: {enable: true, qkv_fprop: off}\nfp8: {recipe: none}\n")).size() >= 10);
  const auto rows =
      auto_rows(deck_with("overlap: {enable: true, qkv_fprop: direct, fc1_fprop: off, fc2_dgrad: bulk}\n"));
  for (const std::string& key : keys_of(rows))
    EXPECT_TRUE(key != "qkv_fprop" && key != "fc1_fprop" && key != "fc2_dgrad");
  ASSERT_FALSE(rows.empty());
  EXPECT_EQ(rows.front().exchange, Exchange::proj_fprop);
  EXPECT_EQ(rows.front().method, Method::pipeline);
}

/// A key without effect is not timed: no product can hide its exchange.
TEST(AutoKeys, without_effect) {
  const deck::Config config = deck_with("overlap: {enable: true}\n");
  deck::Config recomputing = config;
  recomputing.model.recompute = deck::Recompute::full;
  EXPECT_EQ(auto_rows(recomputing).size() + 1, auto_rows(config).size());
  EXPECT_EQ(with_choice(recomputing, {}).overlap.methods[Exchange::fc2_dgrad], Method::off);
}

TEST(AutoKeys, alone) {
  const deck::Config only =
      auto_only(deck_with("overlap: {enable: true, qkv_fprop: direct, fc1_fprop: off, fc2_dgrad: bulk}\n"));
  EXPECT_EQ(only.overlap.methods[Exchange::qkv_fprop], Method::off);
  EXPECT_EQ(only.overlap.methods[Exchange::fc2_dgrad], Method::off);
  EXPECT_EQ(only.overlap.methods[Exchange::proj_fprop], Method::automatic);
}

TEST(AutoKeys, chosen) {
  const char* keys = "overlap: {enable: true, qkv_fprop: direct, fc1_wgrad: off}\n";
  const deck::Config config = deck_with(keys);
  profile::OverlapChoice choice{.from = "measured", .rows = auto_rows(config)};
  for (Row& row : choice.rows) row.taken = row.exchange == Exchange::fc2_fprop || row.exchange == Exchange::qkv_dgrad;
  const deck::Config chosen = with_choice(config, choice);
  EXPECT_TRUE(deck::exchanges_with(chosen, Method::automatic).empty());
  EXPECT_EQ(chosen.overlap.methods[Exchange::qkv_fprop], Method::direct) << "as the deck says";
  EXPECT_EQ(chosen.overlap.methods[Exchange::fc1_wgrad], Method::off) << "as the deck says";
  EXPECT_EQ(chosen.overlap.methods[Exchange::fc2_fprop], Method::pipeline);
  EXPECT_EQ(chosen.overlap.methods[Exchange::qkv_dgrad], Method::bulk);
  EXPECT_EQ(chosen.overlap.methods[Exchange::fc1_fprop], Method::off);
  // What the header prints as overrides is the same deck.
  std::vector<std::string> overrides;
  const std::string text = to_text(choice);
  for (std::size_t at = text.find("overlap.", text.find("as overrides")); at != std::string::npos;) {
    const std::size_t end = text.find_first_of(" \n", at);
    overrides.push_back(text.substr(at, end - at));
    at = text.find("overlap.", end);
  }
  EXPECT_EQ(overrides.size(), choice.rows.size());
  const deck::Config overridden = deck_with(keys, overrides);
  EXPECT_EQ(model::Overlap::make(overridden).methods, model::Overlap::make(chosen).methods);
}

/// As conditions_of() names them.
const profile::Conditions kJob{{"program", "0.1.0 (abc), Release"},
                               {"machine", "some machine"},
                               {"CUDA", "none"},
                               {"CUDA driver", "none"},
                               {"cuBLASLt", "none"},
                               {"cuDNN", "none"},
                               {"NCCL", "none"},
                               {"BLAS", "OpenBLAS 0.3.21"},
                               {"MPI", "MPICH 4.0.2"},
                               {"threads a rank", "1"},
                               {"waiting", "spin"},
                               {"nodes", "1"},
                               {"ranks a node", "2"},
                               {"cores a node", "2"},
                               {"nodes of a tensor group", "1"},
                               {"ranks a device", "none"},
                               {"transport", "memory that ranks share"}};

profile::Measurement plan_of(const deck::Config& config) {
  std::vector<Row> rows = auto_rows(config);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].plain_s = 1e-3 * static_cast<double>(i + 1) / 3;
    rows[i].method_s = 1e-3 / 7;
    rows[i].taken = i % 2 == 0;
  }
  return overlap_measurement(overlap_conditions(config, kJob), rows);
}

std::string text_of(const deck::Config& config) { return to_text(plan_of(config), kOverlapKind); }

/// Why a text does not serve a run of this deck; empty if it does. Nothing may be thrown.
std::string reason_of(const std::string& text, const deck::Config& config,
                      std::span<const std::string_view> ignored = {}) {
  std::string reason;
  const auto kept = profile::measurement_of_text(text, kOverlapKind, reason);
  if (!kept) return reason.empty() ? "no reason" : reason;
  const auto rows = rows_that_fit(*kept, overlap_conditions(config, kJob), auto_rows(config), reason, ignored);
  EXPECT_EQ(rows.has_value(), reason.empty()) << reason;
  return reason;
}

TEST(OverlapPlanFile, text) {
  const deck::Config config = deck_with("overlap: {enable: true}\n");
  const profile::Measurement plan = plan_of(config);
  std::string reason;
  const auto read = profile::measurement_of_text(to_text(plan, kOverlapKind), kOverlapKind, reason);
  ASSERT_TRUE(read.has_value()) << reason;
  EXPECT_EQ(read->conditions, plan.conditions);
  const auto rows = rows_of(*read, reason), expected = rows_of(plan, reason);
  ASSERT_TRUE(rows.has_value() && expected.has_value()) << reason;
  ASSERT_EQ(rows->size(), auto_rows(config).size());
  for (std::size_t i = 0; i < rows->size(); ++i) {
    const Row &row = (*rows)[i], &other = (*expected)[i];
    EXPECT_EQ(row.exchange, other.exchange);
    EXPECT_EQ(row.method, other.method);
    EXPECT_EQ(row.taken, i % 2 == 0);
    EXPECT_DOUBLE_EQ(row.plain_s, 1e-3 * static_cast<double>(i + 1) / 3);
    EXPECT_DOUBLE_EQ(row.method_s, 1e-3 / 7);
  }
}

TEST(OverlapPlanFile, refused_texts) {
  const deck::Config config = deck_with("overlap: {enable: true}\n");
  const std::string text = text_of(config);
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    EXPECT_NE(other.find(from), std::string::npos) << from;
    return other.replace(other.find(from), from.size(), to);
  };
  EXPECT_EQ(reason_of(text, config), "");
  for (const std::string& bad :
       {std::string(), std::string("{"), text.substr(0, text.size() / 2), changed("\"format\": 2", "\"format\": 3"),
        changed("\"format\": 2", "\"format\": \"2\""), changed("\"kind\": \"overlap\"", "\"kind\": \"algorithms\""),
        changed("\"chosen\": \"direct\"", "\"chosen\": \"bulk\""),
        changed("\"chosen\": \"direct\"", "\"chosen\": true"), changed("\"plain_s\": ", "\"plain_s\": \"a\", \"b\": "),
        changed("\"plain_s\": ", "\"plain_s\": -"), changed("\"keys\": ", "\"other\": "),
        changed("\"keys\": ", "\"keys\": 1, \"other\": "),
        changed("\"method\": \"direct\"", "\"method\": [\"direct\"]"), changed("\"nodes\": \"1\"", "\"nodes\": 1")})
    EXPECT_NE(reason_of(bad, config), "") << bad;
  // Every length of a text that was cut.
  for (std::size_t bytes = 0; bytes + 2 < text.size(); bytes += 7)
    EXPECT_NE(reason_of(text.substr(0, bytes), config), "") << bytes;
}

/// What the program wrote before placements were recorded, as a file and as a checkpoint keeps it.
TEST(OverlapPlanFile, old_format) {
  const deck::Config config = deck_with("overlap: {enable: true}\n");
  const std::string old = R"({"format": 1, "measured_with": {"machine": "some machine", "mesh": "1 x 1 x 2"},
"keys": [{"key": "qkv_fprop", "plain_s": 1e-05, "method": "direct", "method_s": 2e-05, "chosen": "off"}]})";
  EXPECT_EQ(reason_of(old, config), "its format is 1, and this program reads 2");
  const SavedChoices saved = choices_of_plan(plan_text({"cublaslt 1\ngemm 2\n", old}));
  EXPECT_EQ(saved.algorithms, "cublaslt 1\ngemm 2\n");
  EXPECT_EQ(reason_of(saved.overlap, config), "its format is 1, and this program reads 2");
}

/// One condition is another one, or was not recorded: the choice does not fit, and the reason names the condition.
TEST(OverlapPlanFile, each_condition_alone) {
  const deck::Config config = deck_with("overlap: {enable: true}\n");
  const profile::Measurement plan = plan_of(config);
  ASSERT_GT(plan.conditions.size(), kJob.size() + 10) << "the job's and the deck's";
  for (std::size_t i = 0; i < plan.conditions.size(); ++i) {
    const auto& [name, value] = plan.conditions[i];
    profile::Measurement other = plan;
    other.conditions[i].second = "another";
    const std::string text = to_text(other, kOverlapKind);
    EXPECT_EQ(reason_of(text, config), name + " was another, and is " + value + " now");
    const std::array<std::string_view, 1> ignored{name};
    EXPECT_EQ(reason_of(text, config, ignored), "");
    other.conditions.erase(other.conditions.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_EQ(reason_of(to_text(other, kOverlapKind), config), name + " was not recorded, and is " + value + " now");
  }
}

TEST(OverlapPlanFile, fits) {
  const deck::Config config = deck_with("overlap: {enable: true}\n");
  const std::string text = text_of(config);
  const auto edited = [&](const std::function<void(deck::Config&)>& edit) {
    deck::Config other = config;
    edit(other);
    return reason_of(text, other);
  };
  EXPECT_EQ(edited([](deck::Config& c) { c.model.ffn = 128; }), "model.ffn was 64, and is 128 now");
  EXPECT_EQ(edited([](deck::Config& c) { c.mesh.shard = 2; }), "mesh was 1 x 1 x 2, and is 1 x 2 x 2 now");
  EXPECT_EQ(edited([](deck::Config& c) { c.data.micro_batch = 8; }), "micro_batch was 16, and is 8 now");
  EXPECT_NE(edited([](deck::Config& c) { c.fp8.recipe = deck::Recipe::current; }), "");
  EXPECT_NE(edited([](deck::Config& c) { c.precision.compute = deck::FloatType::fp32; }), "");
  // What changes no product and no exchange.
  EXPECT_EQ(edited([](deck::Config& c) { c.model.layers = 7; }), "");
  EXPECT_EQ(edited([](deck::Config& c) { c.optimizer.lr = 1; }), "");
}

/// Fewer keys that are auto take their rows of the file; a key that the file lacks does not fit.
TEST(OverlapPlanFile, keys) {
  const deck::Config all = deck_with("overlap: {enable: true}\n"),
                     fewer = deck_with("overlap: {enable: true, qkv_fprop: off, head_dgrad: bulk}\n");
  const profile::Conditions conditions = overlap_conditions(all, kJob);
  std::string reason;
  const auto rows = rows_that_fit(plan_of(all), conditions, auto_rows(fewer), reason);
  ASSERT_TRUE(rows.has_value()) << reason;
  EXPECT_EQ(keys_of(*rows), keys_of(auto_rows(fewer)));
  EXPECT_FALSE(rows_that_fit(plan_of(fewer), conditions, auto_rows(all), reason));
  EXPECT_EQ(reason, "it has no qkv_fprop with direct");
}

/// Rows of exchanges and methods that only another program has are read over.
TEST(OverlapPlanFile, unknown_rows) {
  const deck::Config config = deck_with("overlap: {enable: true, qkv_fprop: off}\n");
  std::string text = text_of(deck_with("overlap: {enable: true}\n"));
  const auto change = [&](const std::string& from, const std::string& to) {
    ASSERT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), from.size(), to);
  };
  change("\"key\": \"qkv_fprop\"", "\"key\": \"router_fprop\"");
  EXPECT_EQ(reason_of(text, config), "");
  change("\"method\": \"pipeline\"", "\"method\": \"tree\"");
  change("\"chosen\": \"off\"", "\"chosen\": \"tree\"");
  EXPECT_EQ(reason_of(text, config), "it has no proj_fprop with pipeline");
}

TEST(SavedChoices, plan) {
  const deck::Config config = deck_with("overlap: {enable: true}\n");
  const std::string overlap = text_of(config), algorithms = "library 1\nproduct 2\n";
  EXPECT_EQ(plan_text({algorithms, ""}), algorithms) << "as before there was a choice of overlap";
  EXPECT_EQ(plan_text({"", ""}), "");
  for (const std::string& a : {algorithms, std::string()}) {
    const SavedChoices read = choices_of_plan(plan_text({a, overlap}));
    EXPECT_EQ(read.algorithms, a);
    std::string reason;
    const auto kept = profile::measurement_of_text(read.overlap, kOverlapKind, reason);
    ASSERT_TRUE(kept.has_value()) << reason;
    EXPECT_EQ(to_text(*kept, kOverlapKind), overlap);
  }
  EXPECT_EQ(choices_of_plan(algorithms).algorithms, algorithms);
  EXPECT_EQ(choices_of_plan(algorithms).overlap, "");
}

}  // namespace
}  // namespace shard8::train

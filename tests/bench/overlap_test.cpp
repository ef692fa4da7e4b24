// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <map>

#include "base/error.hpp"
#include "bench/bench.hpp"
#include "deck/load.hpp"
#include "tests/support/execution.hpp"

namespace shard8::bench {
namespace {

constexpr std::int64_t kTokens = 16 * 32;  // of a micro-batch

struct Deck {
  const char* arch = "llama";
  const char* compute = "fp32";
  const char* recipe = "none";
  int width = 64;  ///< hidden
  const char* recompute = "none";
};

int world_size() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

deck::Config config_of(const Deck& d, int shard = 1) {
  const std::string text = fmt::format(
      R"(
model: {{arch: {}, hidden: {}, ffn: {}, layers: 2, heads: 4, vocab: 67, seq: 32, recompute: {}}}
mesh: {{shard: {}, tensor: {}}}
precision: {{compute: {}}}
fp8: {{recipe: {}}}
overlap: {{enable: false, fc1_wgrad: off}}
optimizer: {{lr: 0.01}}
data: {{kind: synthetic, batch: 32, micro_batch: 16}}
run: {{steps: 1}}
)",
      d.arch, d.width, d.width, d.recompute, shard, world_size() / shard, d.compute, d.recipe);
  return overlap_bench_deck(deck::load_text(text, "bench.yaml").config);
}

OverlapBench bench_of(const deck::Config& config, const OverlapSettings& settings = {.blocks = 2, .repetitions = 1}) {
  return bench_overlap(config, comm::Communicator(MPI_COMM_WORLD, "world", comm::Waiting::yield, nullptr),
                       tests::exec(), 1, settings);
}

void expect_times(const BlockTimes& times, const std::string& where) {
  EXPECT_GT(times.least, 0) << where;
  EXPECT_LE(times.least, times.median) << where;
  EXPECT_LE(times.median, times.most) << where;
}

using Keys = std::map<std::string, std::string>;
const Keys kAll{{"qkv_fprop", "direct"},   {"proj_fprop", "pipeline"}, {"fc1_fprop", "direct"},
                {"fc2_fprop", "pipeline"}, {"qkv_dgrad", "bulk"},      {"proj_dgrad", "bulk"},
                {"fc1_dgrad", "bulk"},     {"fc2_dgrad", "bulk"},      {"qkv_wgrad", "bulk"},
                {"fc1_wgrad", "bulk"},     {"head_fprop", "direct"},   {"head_dgrad", "bulk"}};

/// Every key has its row, and every row has its times.
void expect_rows(const OverlapBench& bench, const Keys& keys) {
  Keys got;
  for (const OverlapRow& row : bench.rows) {
    EXPECT_TRUE(got.emplace(row.key, row.method).second) << row.key << " has two rows";
    expect_times(row.product, row.key + " product");
    expect_times(row.alone, row.key + " exchange");
    expect_times(row.sequential, row.key + " sequential");
    expect_times(row.overlapped, row.key + " overlapped");
    EXPECT_EQ(row.flags.has_value(), row.method != "bulk") << row.key;
    if (row.flags) expect_times(*row.flags, row.key + " flags");
    EXPECT_GT(row.busbw, 0) << row.key;
    EXPECT_GT(row.exchange_bytes, 0) << row.key;
  }
  EXPECT_EQ(got, keys);
}

const OverlapRow& row_of(const OverlapBench& bench, const std::string& key) {
  for (const OverlapRow& row : bench.rows)
    if (row.key == key) return row;
  throw std::out_of_range(key);
}

void expect_product(const OverlapRow& row, std::int64_t m, std::int64_t n, std::int64_t k, const std::string& dtype) {
  EXPECT_EQ(row.m, m) << row.key;
  EXPECT_EQ(row.n, n) << row.key;
  EXPECT_EQ(row.k, k) << row.key;
  EXPECT_EQ(row.dtype, dtype) << row.key;
}

TEST(BenchOverlap, shapes) {
  const OverlapBench bench = bench_of(config_of({.compute = "bf16"}));
  expect_rows(bench, kAll);
  EXPECT_EQ(bench.ranks, world_size());
  EXPECT_EQ(bench.tensor, world_size());
  const std::int64_t t = world_size(), hidden = 64, ffn = 64;
  expect_product(row_of(bench, "qkv_fprop"), kTokens, 3 * hidden / t, hidden, "bf16");
  expect_product(row_of(bench, "proj_fprop"), kTokens, hidden, hidden / t, "bf16");
  expect_product(row_of(bench, "fc1_fprop"), kTokens, 2 * ffn / t, hidden, "bf16");
  expect_product(row_of(bench, "fc2_fprop"), kTokens, hidden, ffn / t, "bf16");
  expect_product(row_of(bench, "qkv_dgrad"), kTokens, hidden, 3 * hidden / t, "bf16");
  expect_product(row_of(bench, "proj_dgrad"), hidden, ffn / t, kTokens, "bf16");
  expect_product(row_of(bench, "fc1_dgrad"), kTokens, hidden, 2 * ffn / t, "bf16");
  expect_product(row_of(bench, "fc2_dgrad"), hidden, hidden / t, kTokens, "bf16");
  expect_product(row_of(bench, "qkv_wgrad"), 3 * hidden / t, hidden, kTokens, "bf16");
  expect_product(row_of(bench, "fc1_wgrad"), 2 * ffn / t, hidden, kTokens, "bf16");
  expect_product(row_of(bench, "head_fprop"), kTokens, (67 + t - 1) / t, hidden, "bf16");
  expect_product(row_of(bench, "head_dgrad"), (67 + t - 1) / t, hidden, kTokens, "bf16");
  for (const OverlapRow& row : bench.rows) EXPECT_EQ(row.exchange_bytes, kTokens * hidden * 2) << row.key;
}

TEST(BenchOverlap, rings) {
  if (tensor::kDevice) return;
  deck::Config config = config_of({.compute = "bf16"});
  for (const auto e : {profile::Exchange::qkv_fprop, profile::Exchange::head_fprop, profile::Exchange::fc2_fprop})
    config.overlap.methods[e] = profile::ExchangeMethod::ring;
  Keys keys = kAll;
  for (const char* key : {"qkv_fprop", "head_fprop", "fc2_fprop"}) keys[key] = "ring";
  expect_rows(bench_of(overlap_bench_deck(config)), keys);
}

TEST(BenchOverlap, recipes) {
  for (const auto& [recipe, gradient, scale_bytes] : {std::tuple{"delayed", "e5m2", 0},
                                                      {"current", "e5m2", 0},
                                                      {"block", "e4m3", 4},
                                                      {"block, format: hybrid", "e5m2", 4},
                                                      {"mxfp8", "e4m3", 4}}) {
    if (world_size() > 2 && std::string(recipe) != "block") continue;  // more ranks add nothing to the others
    SCOPED_TRACE(recipe);
    const int width = 128 * world_size();  // each rank has whole blocks
    const OverlapBench bench = bench_of(config_of({.arch = "gpt2", .recipe = recipe, .width = width}), {1, 1});
    expect_rows(bench, kAll);
    EXPECT_EQ(row_of(bench, "fc1_fprop").dtype, "e4m3");
    EXPECT_EQ(row_of(bench, "fc1_fprop").exchange_dtype, "e4m3");
    EXPECT_EQ(row_of(bench, "fc1_wgrad").dtype, gradient);
    EXPECT_EQ(row_of(bench, "fc2_dgrad").exchange_dtype, gradient);
    EXPECT_EQ(row_of(bench, "fc1_wgrad").exchange_dtype, "fp32");
    EXPECT_EQ(row_of(bench, "head_fprop").exchange_dtype, "fp32");
    EXPECT_EQ(row_of(bench, "head_dgrad").dtype, "fp32");
    EXPECT_EQ(row_of(bench, "fc1_fprop").exchange_bytes, kTokens * width + kTokens * width / 128 * scale_bytes);
  }
}

/// A wgrad that cannot be deferred hides nothing.
TEST(BenchOverlap, recomputation) {
  Keys keys = kAll;
  keys.erase("fc2_dgrad");
  expect_rows(bench_of(config_of({.recompute = "full"}), {1, 1}), keys);
}

TEST(BenchOverlap, several_tensor_groups) {
  if (world_size() < 4) GTEST_SKIP() << "one group";
  const OverlapBench bench = bench_of(config_of({}, 2));
  expect_rows(bench, kAll);
  EXPECT_EQ(bench.ranks, 4);
  EXPECT_EQ(bench.tensor, 2);
}

TEST(BenchOverlap, no_blocks) {
  EXPECT_THROW(bench_of(config_of({}), {0, 1}), base::Error);
  EXPECT_THROW(bench_of(config_of({}), {1, 0}), base::Error);
}

}  // namespace
}  // namespace shard8::bench

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.hpp"
#include "bench/bench.hpp"

namespace shard8::bench {
namespace {

using Json = nlohmann::json;

TEST(HiddenShare, of_the_time_that_the_plain_order_adds) {
  EXPECT_DOUBLE_EQ(hidden_share(2, 3, 2).value(), 1);
  EXPECT_DOUBLE_EQ(hidden_share(2, 3, 3).value(), 0);
  EXPECT_DOUBLE_EQ(hidden_share(2, 3, 2.25).value(), 0.75);
  EXPECT_EQ(hidden_share(2, 3, 4).value(), 0) << "overlap is slower than the plain order";
  EXPECT_EQ(hidden_share(1, 1.03, 13.6).value(), 0) << "a rank lost its core while overlap was timed";
  EXPECT_EQ(hidden_share(2, 3, 1.5).value(), 1) << "overlap is faster than the product";
}

TEST(HiddenShare, nothing_where_the_exchange_takes_too_little) {
  EXPECT_FALSE(hidden_share(98.5, 100, 99));
  EXPECT_FALSE(hidden_share(100, 100, 100));
  EXPECT_FALSE(hidden_share(101, 100, 100)) << "noise: the product alone was slower";
  EXPECT_DOUBLE_EQ(hidden_share(96, 100, 99).value(), 0.25);
}

TEST(HiddenShare, nothing_of_what_is_no_time) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinite = std::numeric_limits<double>::infinity();
  for (const double bad : {nan, infinite, -infinite, 0.0, -1.0}) {
    EXPECT_FALSE(hidden_share(bad, 3, 2)) << bad;
    EXPECT_FALSE(hidden_share(2, bad, 2)) << bad;
    EXPECT_FALSE(hidden_share(2, 3, bad)) << bad;
  }
}

TEST(BlockTimes, median_least_and_most) {
  const BlockTimes odd = block_times(std::array{3.0, 1.0, 2.5});
  EXPECT_EQ(odd.median, 2.5);
  EXPECT_EQ(odd.least, 1);
  EXPECT_EQ(odd.most, 3);
  EXPECT_EQ(block_times(std::array{4.0, 1.0, 3.0, 2.0}).median, 2.5);
  EXPECT_EQ(block_times(std::array{7.0}).median, 7);
  EXPECT_THROW(block_times({}), base::Error);
}

/// A row with flags, and one without, whose exchange takes too little to say how much of it is hidden.
OverlapBench made_up() {
  OverlapBench bench{.settings = {.blocks = 3, .repetitions = 4},
                     .ranks = 4,
                     .tensor = 2,
                     .parts_problem = "",
                     .push_problem = "",
                     .rows = {}};
  OverlapRow row;
  row.key = "fc1_fprop";
  row.method = "direct";
  row.m = 16384;
  row.n = 14336;
  row.k = 4096;
  row.dtype = row.exchange_dtype = "e4m3";
  row.exchange = "all_gather";
  row.exchange_bytes = 67108864;
  row.product = {2, 1.5, 2.5};
  row.alone = {0.5, 0.25, 0.75};
  row.sequential = {3, 2.5, 3.5};
  row.overlapped = {2.25, 2, 4};
  row.flags = BlockTimes{2.125, 2.0625, 3.5};
  row.busbw = 64e9;
  bench.rows.push_back(row);
  row.key = "fc1_dgrad";
  row.method = "bulk";
  row.sequential = {2.01, 2, 3};
  row.flags.reset();
  bench.rows.push_back(row);
  return bench;
}

const Measured kMeasured{"A \"fast\" one, 2 cores", "0.1.0", "abc", "2026-01-02T03:04:05Z"};

TEST(OverlapText, table) {
  std::istringstream lines(to_text(made_up()));
  std::string line;
  const auto words = [&] {
    std::getline(lines, line);
    std::istringstream text(line);
    return std::vector<std::string>{std::istream_iterator<std::string>(text), {}};
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(words(), (Words{"product", "exchange", "sequential", "overlapped", "flags", "hidden", "GB/s"}));
  EXPECT_EQ(words(), (Words{"key", "method", "M", "N", "K", "dtype", "ms", "ms", "ms", "ms", "ms", "%"}));
  EXPECT_EQ(words(), (Words{"fc1_fprop", "direct", "16384", "14336", "4096", "e4m3", "2.0000", "0.5000", "3.0000",
                            "2.2500", "2.1250", "75.0", "64.00"}));
  EXPECT_EQ(words(), (Words{"fc1_dgrad", "bulk", "16384", "14336", "4096", "e4m3", "2.0000", "0.5000", "2.0100",
                            "2.2500", "-", "-", "64.00"}));
  words();
  words();
  EXPECT_EQ(line, "slower than the plain order: fc1_dgrad");
  words();
  words();
  EXPECT_EQ(line, "least..most of 3 blocks, ms");
  EXPECT_EQ(words(), (Words{"fc1_fprop", "direct", "1.5000..2.5000", "0.2500..0.7500", "2.5000..3.5000",
                            "2.0000..4.0000", "2.0625..3.5000"}));
  EXPECT_EQ(words().back(), "-");
}

TEST(OverlapText, json) {
  const Json json = Json::parse(to_json(made_up(), kMeasured));
  EXPECT_EQ(json["blocks"], 3);
  EXPECT_EQ(json["repetitions"], 4);
  EXPECT_EQ(json["ranks"], 4);
  EXPECT_EQ(json["tensor"], 2);
  EXPECT_EQ(json["machine"], kMeasured.machine);
  EXPECT_EQ(json["version"], "0.1.0");
  EXPECT_EQ(json["commit"], "abc");
  EXPECT_EQ(json["date"], "2026-01-02T03:04:05Z");
  ASSERT_EQ(json["rows"].size(), 2);
  const Json &first = json["rows"][0], &second = json["rows"][1];
  EXPECT_EQ(first["key"], "fc1_fprop");
  EXPECT_EQ(first["product_ms"], 2);
  EXPECT_EQ(first["flags_min_ms"], 2.0625);
  EXPECT_EQ(first["overlapped_max_ms"], 4);
  EXPECT_EQ(first["hidden"], 0.75);
  EXPECT_EQ(first["exchange_bytes"], 67108864);
  EXPECT_DOUBLE_EQ(first["exchange_gb_per_s"], 64);
  EXPECT_TRUE(second["flags_ms"].is_null());
  EXPECT_TRUE(second["hidden"].is_null());
}

TEST(OverlapText, csv) {
  std::istringstream lines(to_csv(made_up(), kMeasured));
  std::string names, first, second, none;
  std::getline(lines, names);
  std::getline(lines, first);
  std::getline(lines, second);
  EXPECT_FALSE(std::getline(lines, none));
  EXPECT_EQ(names,
            "key,method,m,n,k,dtype,exchange,exchange_dtype,exchange_bytes,product_ms,product_min_ms,product_max_ms,"
            "exchange_ms,exchange_min_ms,exchange_max_ms,sequential_ms,sequential_min_ms,sequential_max_ms,"
            "overlapped_ms,overlapped_min_ms,overlapped_max_ms,flags_ms,flags_min_ms,flags_max_ms,hidden,"
            "exchange_gb_per_s,blocks,repetitions,ranks,tensor,machine,version,commit,date");
  EXPECT_EQ(first,
            "fc1_fprop,direct,16384,14336,4096,e4m3,all_gather,e4m3,67108864,2.0,1.5,2.5,0.5,0.25,0.75,3.0,2.5,3.5,"
            "2.25,2.0,4.0,2.125,2.0625,3.5,0.75,64.0,3,4,4,2,\"A \"\"fast\"\" one, 2 cores\",0.1.0,abc,"
            "2026-01-02T03:04:05Z");
  EXPECT_NE(second.find(",4.0,,,,,64.0,3,"), std::string::npos) << second;
}

TEST(GemmText, has_the_keys_that_a_roofline_needs) {
  GemmRows rows(2);
  rows[0].product = "bf16 (4096, 512) = e4m3 (4096, 256) x e4m3 (512, 256)";
  rows[0].m = 4096, rows[0].n = 512, rows[0].k = 256;
  rows[0].dtype = "e4m3", rows[0].out_dtype = "bf16";
  rows[0].flops = 2.0 * 4096 * 512 * 256;
  rows[0].microseconds = 250;
  rows[0].first_microseconds = 300;
  rows[0].best_microseconds = 125;
  rows[1].cutlass = true;
  const Json json = Json::parse(to_json(rows, {"machine", "0.1.0", "abc", "2026-01-01T00:00:00Z"}));
  EXPECT_EQ(json["bench"], "gemm");
  EXPECT_EQ(json["machine"], "machine");
  ASSERT_EQ(json["rows"].size(), 2u);
  const Json& row = json["rows"][0];
  EXPECT_EQ(row["key"], "4096x512x256 e4m3");
  EXPECT_EQ(row["m"], 4096);
  EXPECT_EQ(row["k"], 256);
  EXPECT_EQ(row["dtype"], "e4m3");
  EXPECT_EQ(row["out_dtype"], "bf16");
  EXPECT_EQ(row["library"], "cuBLASLt");
  EXPECT_EQ(json["rows"][1]["library"], "CUTLASS");
  EXPECT_DOUBLE_EQ(row["product_ms"].get<double>(), 0.25);
  EXPECT_DOUBLE_EQ(row["best_ms"].get<double>(), 0.125);
  EXPECT_TRUE(json["rows"][1]["product_ms"].is_null()) << "not timed";
  EXPECT_NE(to_text(rows).find("50.0 %"), std::string::npos);
}

}  // namespace
}  // namespace shard8::bench

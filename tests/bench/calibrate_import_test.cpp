// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "bench/calibrate.hpp"
#include "bench/calibrate_import.hpp"

namespace shard8::bench {
namespace {

using machine::CollectiveTime;
using operation::Product;
using profile::Collective;

std::string file(const std::string& name) { return std::string(SHARD8_SOURCE_DIR) + "/tests/bench/imports/" + name; }

void expect_row(const CollectiveTime& row, Collective op, int nodes, int ranks, std::uint64_t bytes, double us) {
  EXPECT_EQ(row.op, op);
  EXPECT_EQ(row.nodes, nodes);
  EXPECT_EQ(row.ranks, ranks);
  EXPECT_EQ(row.bytes, bytes);
  EXPECT_NEAR(row.seconds, 1e-6 * us, 1e-12);
}

TEST(CalibrateImport, NcclJson) {
  const ImportedRows rows = read_import(file("all_gather_perf.json"));
  ASSERT_EQ(rows.collectives.size(), 2u);
  expect_row(rows.collectives[0], Collective::all_gather, 2, 2, 1048576, 60.5);
  expect_row(rows.collectives[1], Collective::all_gather, 2, 2, 16777216, 302.25);
  const ImportedRows given = read_import(file("all_gather_perf.json") + ":1x4");
  expect_row(given.collectives[0], Collective::all_gather, 1, 4, 1048576, 60.5);
}

TEST(CalibrateImport, NcclTable) {
  const ImportedRows rows = read_import(file("nccl_table.txt"));
  ASSERT_EQ(rows.collectives.size(), 2u);
  expect_row(rows.collectives[0], Collective::reduce_scatter, 1, 2, 1048576, 18.7);
  expect_row(rows.collectives[1], Collective::reduce_scatter, 1, 2, 4194304, 40.3);
}

TEST(CalibrateImport, OsuTables) {
  const ImportedRows gather = read_import(file("osu_allgather.txt") + ":2x8");
  ASSERT_EQ(gather.collectives.size(), 2u);
  expect_row(gather.collectives[0], Collective::all_gather, 2, 8, 16 * 1024, 12.5);
  expect_row(gather.collectives[1], Collective::all_gather, 2, 8, 16 * 65536, 101);
  const ImportedRows reduce = read_import(file("osu_allreduce.txt") + ":1x4");
  ASSERT_EQ(reduce.collectives.size(), 2u);
  expect_row(reduce.collectives[1], Collective::all_reduce, 1, 4, 1048576, 310.2);
  const ImportedRows scatter = read_import(file("osu_reduce_scatter.txt") + ":4x1");
  ASSERT_EQ(scatter.collectives.size(), 1u);
  expect_row(scatter.collectives[0], Collective::reduce_scatter, 4, 1, 4096, 9.25);
}

TEST(CalibrateImport, OwnBenchmarks) {
  const ImportedRows collectives = read_import(file("bench_collective.json"));
  ASSERT_EQ(collectives.collectives.size(), 1u);
  expect_row(collectives.collectives[0], Collective::all_to_all, 1, 2, 65536, 11.5);
  expect_row(read_import(file("bench_collective.json") + ":2x1").collectives[0], Collective::all_to_all, 2, 1, 65536,
             11.5);

  const ImportedRows gemm = read_import(file("bench_gemm.json"));
  ASSERT_EQ(gemm.products.size(), 4u);  // and one that was not timed
  const auto kind = [&](std::size_t i) { return gemm.products[i].product.kind; };
  EXPECT_EQ(kind(0), Product::Kind::fprop);
  EXPECT_EQ(kind(1), Product::Kind::dgrad);
  EXPECT_EQ(kind(2), Product::Kind::wgrad);
  EXPECT_TRUE(gemm.products[2].product.accumulate);
  EXPECT_NEAR(gemm.products[0].seconds, 540.1e-6, 1e-12);
  const Product fp8 = gemm.products[3].product;
  EXPECT_EQ(fp8.kind, Product::Kind::wgrad);
  EXPECT_EQ(fp8.left, (operation::Format{tensor::DType::e5m2, tensor::Scaling::tensor, true}));
  EXPECT_EQ(fp8.right, (operation::Format{tensor::DType::e4m3, tensor::Scaling::tensor, true}));
  EXPECT_EQ(fp8.rows, 6144);
  EXPECT_EQ(fp8.cols, 4096);
  EXPECT_EQ(fp8.inner, 8192);
}

/// The message for a file of this text, whose name is NAME.
std::string message(const std::string& name, const std::string& text, const std::string& shape = "") {
  const std::filesystem::path path = std::filesystem::temp_directory_path() / ("calibrate_import_" + name);
  std::ofstream(path) << text;
  std::string said;
  try {
    read_import(path.string() + shape);
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::deck);
    said = e.what();
  }
  std::filesystem::remove(path);
  const std::string folder = std::filesystem::temp_directory_path().string() + "/calibrate_import_";
  const auto at = said.find(folder);
  return at == std::string::npos ? said : said.substr(at + folder.size());
}

void expect_said(const std::string& said, const std::string& place, const std::string& what) {
  EXPECT_TRUE(said.starts_with(place)) << said;
  EXPECT_NE(said.find(what), std::string::npos) << said;
}

TEST(CalibrateImport, Errors) {
  expect_said(message("a.json", "{\"results\": [\n1,\n"), "a.json:3: error: ", "it is no JSON");
  expect_said(message("b.txt", "hello\n"), "b.txt: error: ", "no file of a program that is known");
  expect_said(message("c.txt", " \n"), "c.txt: error: ", "it is empty");
  expect_said(message("d.txt", "# OSU MPI Allgather Latency Test\n1024 5.0\n"), "d.txt: error: ", ":NODESxRANKS");
  expect_said(message("e.txt", "# OSU MPI Allgather Latency Test\n1024 nan\n", ":1x2"),
              "e.txt:2: error: ", "latency is 'nan'");
  expect_said(message("f.txt", "# OSU MPI Latency Test\n1024 5.0\n", ":1x2"), "f.txt: error: ", "which collective");
  expect_said(message("g.json", R"({"results": [{"operation": "all_gather", "ranks": 2, "size": 1, "time_us": 0}]})"),
              "g.json: results[0]: error: ", "time_us is 0");
  expect_said(
      message("h.json", R"({"results": [{"operation": "all_gather", "ranks": 2, "size": 1, "time_us": 1}]})", ":2x2"),
      "h.json: results[0]: error: ", "it has 2 ranks, but 2 x 2 were given");
  expect_said(message("i.json", R"({"bench": "gemm", "rows": [{"product": "no", "product_ms": 1}]})"),
              "i.json: rows[0]: error: ", "no product of bench gemm");
  expect_said(message("all_gather_k.json", R"({"results": [{"size": 64, "in_place": {"cpu_time": 3}}]})", ":1x2"),
              "all_gather_k.json: results[0].in_place: error: ", "time is missing");
  expect_said(message("l.json", "{}"), "l.json: error: ", "it has no results");
  expect_said(message("m.txt", "x", ":1x1"), "m.txt:1x1: error: ", "fewer than 2 ranks");
  try {
    read_import("/nothere/file.json");
    ADD_FAILURE() << "it read a file that does not exist";
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::deck);
  }
}

TEST(CalibrateImport, RowsThatAreThereStay) {
  machine::Machine m;
  m.name = "test";
  const int here = m.add_source(machine::Source::Kind::measured, "here", "measured");
  CollectiveTime row;
  row.op = Collective::reduce_scatter;
  row.nodes = 1;
  row.ranks = 2;
  row.bytes = 1048576;
  row.seconds = 1;
  row.source = here;
  m.collectives.push_back(row);
  // The larger one of the file takes much less than the second that the smaller one takes here.
  const auto remarks = add_imported(m, read_import(file("nccl_table.txt")));
  ASSERT_EQ(m.collectives.size(), 1u);
  EXPECT_EQ(m.collectives[0].seconds, 1);
  ASSERT_EQ(remarks.size(), 1u);
  add_imported(m, read_import(file("bench_collective.json")));
  ASSERT_EQ(m.collectives.size(), 2u);
  EXPECT_EQ(m.sources.at(static_cast<std::size_t>(m.collectives[1].source)).kind, machine::Source::Kind::imported);
  EXPECT_NE(m.sources.at(static_cast<std::size_t>(m.collectives[1].source)).text.find("bench_collective.json"),
            std::string::npos);
}

}  // namespace
}  // namespace shard8::bench

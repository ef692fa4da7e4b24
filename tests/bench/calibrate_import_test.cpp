// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
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
  EXPECT_TRUE(rows.remarks.empty());
  // Hosts may be containers of one node.
  const ImportedRows given = read_import(file("all_gather_perf.json") + ":1x4");
  ASSERT_EQ(given.remarks.size(), 1u);
  EXPECT_NE(given.remarks[0].find("its ranks were on 2 x 2 (hosts x ranks on each): they count as 1 x 4, as given"),
            std::string::npos);
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

/// A file of this text, whose name ends in NAME.
class Given {
 public:
  Given(const std::string& name, const std::string& text)
      : path_(std::filesystem::temp_directory_path() / ("calibrate_import_" + name)) {
    std::ofstream(path_) << text;
  }
  Given(const Given&) = delete;
  Given& operator=(const Given&) = delete;
  ~Given() { std::filesystem::remove(path_); }
  ImportedRows read(const std::string& shape = "") const { return read_import(path_.string() + shape); }
  /// A text from the file's name NAME on.
  static std::string from_name(const std::string& said) {
    const std::string folder = std::filesystem::temp_directory_path().string() + "/calibrate_import_";
    const auto at = said.find(folder);
    return at == std::string::npos ? said : said.substr(at + folder.size());
  }

 private:
  std::filesystem::path path_;
};

/// The message for a file of this text.
std::string message(const std::string& name, const std::string& text, const std::string& shape = "") {
  try {
    Given(name, text).read(shape);
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::deck);
    return Given::from_name(e.what());
  }
  return "no error";
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
  expect_said(message("e.txt", "# OSU MPI Allgather Latency Test\n# Size Avg Latency(us)\n1024 nan\n", ":1x2"),
              "e.txt:3: error: ", "latency is 'nan'");
  expect_said(message("f.txt", "# OSU MPI Latency Test\n1024 5.0\n", ":1x2"),
              "f.txt: error: ", "times no collective of a machine file");
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

constexpr const char* kRanks =
    "#  Rank  0 Group  0 Pid   1 on  nodea device  0 [0x1] H100\n"
    "#  Rank  1 Group  0 Pid   1 on  nodea device  1 [0x1] H100\n"
    "#  Rank  2 Group  0 Pid   1 on  nodeb device  0 [0x1] H100\n"
    "#  Rank  3 Group  0 Pid   1 on  nodeb device  1 [0x1] H100\n";
constexpr const char* kHead =
    "#                                out-of-place             in-place\n"
    "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n"
    "#   (B)  (elements)                (us)  (GB/s)  (GB/s)        (us)  (GB/s)  (GB/s)\n";

/// A run of nccl-tests.
std::string run_of(const std::string& program, const std::string& rows) {
  return "# Collective test starting: " + program + "\n# nThread 1 nGpus 1\n# Using devices\n" + kRanks + kHead + rows;
}
std::string row_of(int bytes, const std::string& us, const std::string& wrong = "0",
                   const std::string& type = "float") {
  return " " + std::to_string(bytes) + " 16 " + type + " none -1 99.0 1.0 1.0 " + wrong + " " + us + " 1.0 1.0 " +
         wrong + "\n";
}

TEST(CalibrateImport, NcclTablesThatContradictThemselvesAreRefused) {
  const std::string run = run_of("all_gather_perf", row_of(1024, "10.0") + row_of(2048, "12.0"));
  expect_said(message("a.txt", run, ":8x8"),
              "a.txt:4: error: ", "it was measured on 2 x 2 ranks (nodes x ranks on each), but 8 x 8 were given");
  expect_said(message("b.txt", run_of("all_gather_perf", row_of(1024, "10.0", "777"))),
              "b.txt:11: error: ", "#wrong is '777': data came out wrong");
  expect_said(message("c.txt", run + row_of(1024, "30.0")),
              "c.txt:13: error: ", "all_gather of 1024 bytes takes 30 us, but 10 us in ");
  expect_said(message("d.txt", run + " 4096 16 float none -1 99.0 1.0\n"),
              "d.txt:13: error: ", "it has 7 of 13 columns: the line is cut off");
  expect_said(message("d.txt", run + " 4096 16 float none -1 99.0 1.0 1.0 0 10.0 1.0 1.0"),
              "d.txt:13: error: ", "it has 12 of 13 columns");
  expect_said(message("e.txt", run + "# Out of bounds values : 3 FAILED\n"),
              "e.txt:13: error: ", "data came out wrong");
  expect_said(message("f.txt", run_of("all_gather_perf", " 0.5 16 float none -1 9 1 1 0 9 1 1 0\n")),
              "f.txt:11: error: ", "size is 0.5, but must be a whole number of bytes from 1 to 1e18");
  expect_said(message("f.txt", run_of("all_gather_perf", " 1e18 16 float none -1 9 1 1 0 9 1 1 0\n")),
              "f.txt:11: error: ", "size is 1e+18");
  expect_said(message("f.txt", run_of("all_gather_perf", " 32M 16 float none -1 9 1 1 0 9 1 1 0\n")),
              "f.txt:11: error: ", "size is '32M', but must be a number of bytes");
  expect_said(message("f.txt", "# OSU MPI Allgather Latency Test\n# Size Avg Latency(us)\n1M 12.5\n", ":1x2"),
              "f.txt:3: error: ", "size is '1M'");
  expect_said(message("g.txt", run_of("all_gather_perf", row_of(64, "1e300"))),
              "g.txt:11: error: ", "a time is 1e+300 us");
  expect_said(message("g.txt", run_of("all_gather_perf", row_of(64, "1e999"))), "g.txt:11: error: ", "time is '1e999'");
  std::string other = run;
  other.replace(other.find("nodeb"), 5, "nodea");
  expect_said(message("h.txt", other), "h.txt:4: error: ", "host 'nodea' has 3 ranks, but host 'nodeb' has 1");
  other = run;
  other.replace(other.find("Rank  2 Group  0") + 14, 2, " 1");
  expect_said(message("i.txt", other), "i.txt:6: error: ", "several groups");
  other = run;
  other.replace(other.find("(us)"), 4, "(ms)");
  expect_said(message("j.txt", other), "j.txt:10: error: ", "times are in (ms)");
  expect_said(message("k.txt", run_of("alltoallv_perf", row_of(64, "9.0"))),
              "k.txt: error: ", "k.txt:1: 'alltoallv_perf' times no collective of a machine file");
}

TEST(CalibrateImport, NcclTablesOfOtherVersions) {
  // Several programs in one file, and what NCCL_DEBUG, a launcher and a size of 0 leave in it; line ends of Windows.
  std::string text = "\xEF\xBB\xBF" + run_of("/opt/all_gather_perf", row_of(0, "0.0") + "nodea:7:8 [0] NCCL INFO x\n" +
                                                                         row_of(1024, "10.0", "N/A"));
  text += "# Out of bounds values : 0 OK\n" + run_of("broadcast_perf", row_of(1024, "5.0", "3")) +
          run_of("alltoall_perf", row_of(1024, "20.0"));
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) text.replace(at, 1, "\r\n");
  const ImportedRows rows = Given("several.txt", text).read();
  ASSERT_EQ(rows.collectives.size(), 2u);
  expect_row(rows.collectives[0], Collective::all_gather, 2, 2, 1024, 10);
  expect_row(rows.collectives[1], Collective::all_to_all, 2, 2, 1024, 99);
  ASSERT_EQ(rows.remarks.size(), 1u);
  EXPECT_EQ(Given::from_name(rows.remarks[0]),
            "several.txt:15: 'broadcast_perf' times no collective of a machine file: its rows are left out");
  // Before 2.17: no name of the program; before 2.10: errors instead of numbers of wrong elements, and no redop.
  const std::string old = std::string("# nThread 1 nGpus 4\n# Using devices\n") + kRanks +
                          "#          out-of-place        in-place\n"
                          "#  size  count  type  time  algbw  busbw  error  time  algbw  busbw  error\n";
  const std::string one = old + " 1024 16 float 9.0 1 1 4e-07 8.0 1 1 4e-07\n";
  expect_row(Given("all_gather_old.txt", one).read().collectives.at(0), Collective::all_gather, 2, 2, 1024, 8);
  expect_said(message("all_gather_old.txt", one + one),
              "all_gather_old.txt:18: error: ", "does not say of which collective");
  std::string blank = run_of("all_gather_perf", row_of(1024, "10.0"));
  blank.erase(blank.find("none"), 4);
  expect_row(Given("blank.txt", blank).read().collectives.at(0), Collective::all_gather, 2, 2, 1024, 10);
  // -d all, or several cycles.
  const ImportedRows types =
      Given("types.txt", run_of("all_gather_perf", row_of(64, "10.0", "0", "int8") + row_of(64, "14.0", "0", "half")))
          .read();
  ASSERT_EQ(types.collectives.size(), 1u);
  expect_row(types.collectives[0], Collective::all_gather, 2, 2, 64, 12);
  ASSERT_EQ(types.remarks.size(), 1u);
  EXPECT_TRUE(Given::from_name(types.remarks[0]).starts_with("types.txt:12: a row above is of the same: "));
  EXPECT_NE(types.remarks[0].find("1.40"), std::string::npos);
}

TEST(CalibrateImport, OsuColumns) {
  const std::string title = "# OSU MPI Non-blocking Allgather Latency Test v7.4\n# Overall = Coll. Init + Compute\n\n";
  const ImportedRows wait =
      Given("i.txt", title +
                         "# Size  Overall(us)  Compute(us)  Coll. Init(us)  MPI_Test(us)  MPI_Wait(us)  "
                         "Pure Comm.(us)  Overlap(%)\n1048576 200 100 1 0 99 100 0\n")
          .read(":2x1");
  ASSERT_EQ(wait.collectives.size(), 1u);
  expect_row(wait.collectives[0], Collective::all_gather, 2, 1, 2097152, 100);
  ASSERT_EQ(wait.remarks.size(), 1u);
  EXPECT_TRUE(Given::from_name(wait.remarks[0]).starts_with("i.txt:4: times are those of the column Pure Comm."));
  const ImportedRows full =
      Given("f.txt",
            "# OSU MPI-CUDA All-to-All Personalized Exchange Latency Test v7.4\n# Datatype: MPI_FLOAT.\n"
            "# Size  Avg Latency(us)  Min Latency(us)  Max Latency(us)  Iterations  P50 Tail Lat(us)  "
            "Validation\n64  5.0  4.0  6.0  1000  5.1  Pass\n"
            "# OSU MPI Allreduce Persistent Latency Test v7.4\n# Size  Latency (ms)\n64  0.007\n")
          .read(":1x2");
  ASSERT_EQ(full.collectives.size(), 2u);
  expect_row(full.collectives[0], Collective::all_to_all, 1, 2, 128, 5);
  expect_row(full.collectives[1], Collective::all_reduce, 1, 2, 64, 7);
  EXPECT_TRUE(full.remarks.empty());

  const std::string head = "# OSU MPI Allgather Latency Test v7.4\n# Size Avg Latency(us)\n";
  expect_said(message("a.txt", head + "1048576 100\n1048576 300\n", ":2x1"),
              "a.txt:4: error: ", "all_gather of 2097152 bytes takes 300 us, but 100 us in ");
  expect_said(message("b.txt", head + "1048576 100\n4194304", ":2x1"), "b.txt:4: error: ", "it has 1 of 2 columns");
  expect_said(message("c.txt", head + "1e30 100\n0.2 3\n", ":2x1"), "c.txt:3: error: ", "size is 1e+30, but must be");
  expect_said(message("c.txt", head + "0.5 3\n", ":2x1"), "c.txt:3: error: ", "size is 0.5, but must be");
  expect_said(message("c.txt", head + "1e999 3\n", ":2x1"), "c.txt:3: error: ", "size is nan, but must be");
  expect_said(message("c.txt", head + "6e17 3\n", ":2x1"), "c.txt:3: error: ", "size is 1.2e+18, but must be");
  expect_said(message("d.txt", head + "64 inf\n", ":2x1"), "d.txt:3: error: ", "a time is inf us");
  expect_said(message("e.txt", "# OSU MPI Allgather Latency Test\n64 3\n", ":2x1"),
              "e.txt:2: error: ", "no line above names the columns");
  expect_said(message("e.txt", "# OSU MPI Allgather Bandwidth Test\n# Size MB/s\n64 3\n", ":2x1"),
              "e.txt:2: error: ", "no column is named 'Avg Latency(us)'");
  expect_said(
      message("g.txt", "# OSU MPI Allgather Latency Test\n# Size Avg Latency(us) Validation\n64 3 Fail\n", ":2x1"),
      "g.txt:3: error: ", "Validation is 'Fail'");
  expect_said(message("h.txt", "# OSU MPI Neighborhood Allgather Latency Test\n# Size Avg Latency(us)\n64 3\n", ":2x1"),
              "h.txt: error: ", "times no collective of a machine file");
  const ImportedRows cut = Given("j.txt", head + "64 3.").read(":2x1");
  ASSERT_EQ(cut.remarks.size(), 1u);
  EXPECT_TRUE(Given::from_name(cut.remarks[0]).starts_with("j.txt:3: the file ends without the end of this line"));
}

TEST(CalibrateImport, JsonThatContradictsItself) {
  std::ifstream in(file("all_gather_perf.json"));
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    other.replace(other.find(from), from.size(), to);
    return other;
  };
  expect_said(message("a.json", text, ":8x8"),
              "a.json: devices: error: ", "2 x 2 ranks (nodes x ranks on each), but 8 x 8");
  expect_said(message("b.json", changed("\"nwrong\":0.0", "\"nwrong\":7.0")),
              "b.json: results[0].out_of_place: error: ", "nwrong is 7");
  expect_said(message("c.json", changed("\"count\":0,", "\"count\":7,")),
              "c.json: out_of_bounds: error: ", "count is 7");
  expect_said(message("d.json", changed("16777216,\"count\"", "1048576,\"count\"")),
              "d.json: results[1]: error: ", "takes 302.25 us, but 60.5 us in ");
  expect_said(message("e.json", changed("16777216,\"count\"", "0.2,\"count\"")),
              "e.json: results[1]: error: ", "size is 0.2");
  expect_said(message("f.json", changed("60.5", "1e999")), "f.json: error: ", "too large");
  expect_said(message("g.json", changed("all_gather_perf\"", "broadcast_perf\"")),
              "g.json: args: error: ", "'broadcast_perf' times no collective");
  expect_said(message("h.json", changed("AllGather", "AllReduce")),
              "h.json: results[0]: error: ", "experiment_name is 'AllReduce'");
  expect_said(message("i.json", changed("\"group\":0", "\"group\":1")), "i.json: devices: error: ", "several groups");
  const std::string own = R"({"operation": "all_gather", "ranks": 2, "size": 64, "time_us": 1, "nwrong": 0})";
  std::string wrong = own;
  wrong.replace(wrong.find("nwrong\": 0"), 10, "nwrong\": 5");
  expect_said(message("j.json", "{\"results\": [" + wrong + "]}"), "j.json: results[0]: error: ", "nwrong is 5");
  expect_said(message("n.json", "{\"results\": [" + own + "], \"out_of_bounds\": 2}"),
              "n.json: error: ", "out_of_bounds is 2");
  expect_said(message("o.json", "{\"schema\": 2, \"results\": [" + own + "]}"),
              "o.json: schema: error: ", "it is 2, this program reads 1");
  EXPECT_EQ(
      Given("p.json", "{\"schema\": 1, \"results\": [" + own + "], \"out_of_bounds\": 0}").read().collectives.size(),
      1u);
  // Groups of one size in a bench collective.
  std::string slower = own;
  slower.replace(slower.find("us\": 1"), 6, "us\": 5");
  const ImportedRows groups = Given("k.json", "{\"results\": [" + own + "," + slower + "]}").read();
  ASSERT_EQ(groups.collectives.size(), 1u);
  EXPECT_NEAR(groups.collectives[0].seconds, 3e-6, 1e-12);
  ASSERT_EQ(groups.remarks.size(), 1u);
  EXPECT_NE(groups.remarks[0].find("results[1]"), std::string::npos);

  const auto gemm = [](const std::string& product, const std::string& m, const std::string& ms) {
    return R"({"product": ")" + product + R"(", "m": )" + m + R"(, "n": 6, "k": 4, "product_ms": )" + ms + "}";
  };
  const std::string product = "bf16 (8, 6) = bf16 (8, 4) x bf16 (6, 4)";
  const auto rows = [](const std::string& some) { return R"({"bench": "gemm", "rows": [)" + some + "]}"; };
  expect_said(message("l.json", rows(gemm(product, "9", "1"))),
              "l.json: rows[0]: error: ", "m, n and k are 9, 6 and 4");
  expect_said(message("l.json", rows(gemm(product, "8.5", "1"))),
              "l.json: rows[0]: error: ", "m is 8.5, but must be a whole");
  expect_said(message("l.json", rows(gemm(product, "8", "1e-300"))), "l.json: rows[0]: error: ", "a time is 1e-300 ms");
  // A product with a bias and without one is the same row of a machine file.
  const ImportedRows twice =
      Given("m.json", rows(gemm(product, "8", "1") + "," + gemm(product + ", bias", "8", "1.5"))).read();
  ASSERT_EQ(twice.products.size(), 1u);
  EXPECT_NEAR(twice.products[0].seconds, 1.25e-3, 1e-12);
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
  ASSERT_EQ(remarks.size(), 2u);
  EXPECT_NE(remarks[0].find("1 row was left out: measured here, or in a file that was imported before"),
            std::string::npos);
  add_imported(m, read_import(file("bench_collective.json")));
  ASSERT_EQ(m.collectives.size(), 2u);
  EXPECT_EQ(m.sources.at(static_cast<std::size_t>(m.collectives[1].source)).kind, machine::Source::Kind::imported);
  EXPECT_NE(m.sources.at(static_cast<std::size_t>(m.collectives[1].source)).text.find("bench_collective.json"),
            std::string::npos);
}

}  // namespace
}  // namespace shard8::bench

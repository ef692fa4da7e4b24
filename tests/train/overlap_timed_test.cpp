// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <chrono>
#include <thread>

#include "deck/load.hpp"
#include "tests/support/execution.hpp"
#include "train/overlap/choice.hpp"
#include "train/plan/plan.hpp"

namespace shard8::train {
namespace {

using profile::Exchange;
using Method = profile::ExchangeMethod;

comm::Communicator world() { return {MPI_COMM_WORLD, "world", comm::Waiting::yield, nullptr}; }

std::string said(const profile::OverlapChoice& choice) {
  std::string text;
  for (const auto& row : choice.rows)
    text += std::string(name_of(row.exchange)) + " " + std::string(name_of(row.chosen())) + "\n";
  return text;
}

/// Every rank said the same.
void expect_same(const comm::Communicator& group, const std::string& text) {
  for (const std::string& other : group.all_gather(text)) EXPECT_EQ(other, text);
}

std::vector<double> times(double milliseconds) { return {milliseconds, milliseconds, milliseconds}; }

/// Times as if they had been measured: the slowest rank's count, and rank 0 decides for all.
TEST(ChosenByAll, slowest_rank) {
  const comm::Communicator group = world();
  const bool last = group.rank() == group.size() - 1;
  const auto choice = choose_overlap(group, {{Exchange::qkv_fprop, Method::direct, times(10), times(8)},
                                             {Exchange::proj_fprop, Method::pipeline, times(8), times(10)},
                                             {Exchange::fc1_fprop, Method::direct, times(10), times(9.99)},
                                             {Exchange::fc2_fprop, Method::pipeline, times(10), times(last ? 12 : 8)},
                                             {Exchange::qkv_dgrad, Method::bulk, times(last ? 12 : 8), times(10)}});
  EXPECT_EQ(said(choice), "qkv_fprop direct\nproj_fprop off\nfc1_fprop off\nfc2_fprop off\nqkv_dgrad bulk\n");
  expect_same(group, said(choice));
  EXPECT_DOUBLE_EQ(choice.rows[3].method_s, 12e-3) << "of the slowest rank";
}

deck::Config config_of(const std::string& more) {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return deck::load_text(
             "model: {arch: llama, hidden: 48, ffn: 96, layers: 2, heads: 6, vocab: 67, seq: 16}\n"
             "mesh: {tensor: " +
                 std::to_string(ranks) +
                 "}\noptimizer: {lr: 0.01}\ndata: {kind: synthetic, batch: 12, micro_batch: 6}\n"
                 "run: {steps: 1}\n" +
                 more,
             "choice.yaml")
      .config;
}

/// Exchanges are timed, and all ranks choose alike.
TEST(TimedByAll, choice) {
  for (const char* more : {"overlap: {enable: true}\n", "overlap: {enable: true, qkv_fprop: direct, fc2_dgrad: off}\n",
                           "overlap: {enable: true}\nprecision: {compute: bf16}\n"}) {
    SCOPED_TRACE(more);
    const deck::Config config = config_of(more);
    const comm::Mesh mesh = comm::make_mesh(world(), config.mesh.extents(), {.tensor = true});
    const auto measured = time_auto(config, mesh, tests::exec(), 1, 0.2);
    const auto rows = auto_rows(config);
    ASSERT_EQ(measured.size(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(measured[i].exchange, rows[i].exchange);
      EXPECT_EQ(measured[i].method, rows[i].method);
      EXPECT_GE(measured[i].plain.size(), 3U);
      EXPECT_EQ(measured[i].plain.size(), measured[i].overlapped.size());
    }
    const auto choice = choose_overlap(mesh.world, measured);
    ASSERT_EQ(choice.rows.size(), rows.size());
    for (const auto& row : choice.rows) {
      EXPECT_GT(row.plain_s, 0) << name_of(row.exchange);
      EXPECT_GT(row.method_s, 0) << name_of(row.exchange);
      EXPECT_TRUE(!row.taken || row.method_s < row.plain_s) << name_of(row.exchange);
    }
    expect_same(mesh.world, said(choice));
  }
}

using Call = std::function<void()>;

/// What in_turns needs. All ranks make it together.
struct Timed {
  deck::Config config = config_of("overlap: {enable: true}\n");
  comm::Mesh mesh = comm::make_mesh(world(), config.mesh.extents(), {.tensor = true});
  Setup setup = Setup::make(config, mesh.world.rank(), 1);
  OverlapTiming timing{setup, mesh, tests::exec()};
};

/// Variants take turns call by call, and the first round is not timed.
TEST(InTurns, order) {
  Timed timed;
  std::string calls;
  const Call a = [&] {
    if (calls.empty()) std::this_thread::sleep_for(std::chrono::seconds(2));
    calls += 'a';
  };
  const Call b = [&] { calls += 'b'; }, c = [&] { calls += 'c'; };
  const std::array<const Call*, 3> variants{&a, &b, &c};
  const auto warm = timed.timing.in_turns(variants, 2);
  EXPECT_EQ(calls, "abcabcabc");
  ASSERT_EQ(warm.size(), 3U);
  EXPECT_LT(warm[0], 500) << "the first round counts";
  calls = "-";
  timed.timing.in_turns(variants, 2, false);
  EXPECT_EQ(calls, "-abcabc");
}

/// A variant's time is the mean of its own calls.
TEST(InTurns, mean) {
  Timed timed;
  int calls = 0;
  const Call none = [] {};
  const Call sleeps = [&] { std::this_thread::sleep_for(std::chrono::milliseconds(++calls == 1 ? 0 : 100 * calls)); };
  const std::array<const Call*, 2> variants{&none, &sleeps};
  const auto here = timed.timing.in_turns(variants, 2);  // 200 and 300 ms
  ASSERT_EQ(here.size(), 2U);
  EXPECT_GE(here[0], 0);
  EXPECT_LT(here[0], 100);
  EXPECT_GE(here[1], 250);
  EXPECT_LT(here[1], 400);
}

/// A call does not wait for a rank that the call before it made late.
TEST(InTurns, aligned) {
  Timed timed;
  const comm::Communicator& group = timed.mesh.world;
  const Call late = [&] {
    if (group.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  };
  const Call together = [&] { group.barrier(); };
  const std::array<const Call*, 2> variants{&late, &together};
  const auto here = timed.timing.in_turns(variants, 2);
  EXPECT_LT(here[1], 150);
  const auto slowest = timed.timing.largest(here);
  EXPECT_GE(slowest[0], 300) << "of rank 0";
  EXPECT_GE(slowest[1], here[1]);
}

TEST(InTurns, nothing) {
  Timed timed;
  const Call none = [] {};
  const std::array<const Call*, 1> variants{&none};
  EXPECT_THROW(timed.timing.in_turns({}, 1), base::Error);
  EXPECT_THROW(timed.timing.in_turns(variants, 0), base::Error);
}

/// Timing takes no more memory than the training.
TEST(TimedByAll, memory) {
  for (const char* more : {"overlap: {enable: true}\n", "overlap: {enable: true}\nprecision: {compute: bf16}\n",
                           "overlap: {enable: true, qkv_fprop: off, fc2_dgrad: bulk}\n"}) {
    const deck::Config config = config_of(more);
    EXPECT_LE(OverlapTiming::bytes(Setup::make(auto_only(config), 0, 1)), make_plan(config, 1).total_bytes()) << more;
  }
}

}  // namespace
}  // namespace shard8::train

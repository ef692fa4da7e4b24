// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>
#include <malloc.h>

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "profile/figures.hpp"
#include "profile/metrics.hpp"
#include "profile/report.hpp"
#include "profile/report_files.hpp"
#include "profile/step_timer.hpp"
#include "tests/profile/synthetic.hpp"
#include "train/verify.hpp"

// What a run keeps of its steps takes as much memory after a million steps as after a thousand.

namespace shard8 {
namespace {

using namespace profile;

/// Bytes that this process holds of the heap.
std::size_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

/// Everything that a run tells of each step, without the model.
class Records {
 public:
  explicit Records(std::int64_t steps) : progress_(null_.get(), false, 0, steps, 1000000), judge_(config_, gold_) {
    config_.final_loss_max = 3;
    config_.min_steps = 1;
    timer_.record(steps, 5);
    timer_.set_trace(&trace_);
    log_.set_trace(&trace_);
  }
  void step(std::int64_t s) {
    timer_.begin_step();
    for (const Phase phase : {Phase::data, Phase::forward, Phase::backward, Phase::optimizer}) {
      const auto scope = timer_.phase(phase);
      const auto part = timer_.part(Part::gemm);
      for (int layer = 0; layer < 8; ++layer) const auto issue = timer_.issue(Issue::layer_forward);
    }
    const CollectiveGroup group{Collective::all_gather, "shard", 4};
    log_.began(group, InFlight::Clock::now());
    log_.ended(group, InFlight::Clock::now());
    log_.record({Collective::all_gather, "shard", 4, "bf16", 4096}, 1e-3, 1e-4);
    const double seconds = timer_.end_step();
    const double loss = 2 + 1 / static_cast<double>(s + 1);
    progress_.step({s, loss, 1, 1e-3, 64, seconds, 64 / seconds, "run"});
    totals_.add({s, loss, 64, seconds});
    judge_.add(s, loss);
  }
  Report report() {
    return make_report(timer_.steps(), log_, {.tokens_per_step = 64, .host = "node", .issues = &timer_.issues()},
                       profile::tests::one_rank());
  }
  const train::LossJudge& judge() const { return judge_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> null_{std::fopen("/dev/null", "w")};
  StepTimer timer_;
  CollectiveLog log_;
  TraceRecorder trace_{{{7, 9}}, 0};
  Progress progress_;
  Totals totals_;
  deck::VerifyConfig config_;
  std::vector<double> gold_;
  train::LossJudge judge_;
};

TEST(BoundedRecords, take_no_more_memory_after_a_million_steps_than_after_a_thousand) {
  constexpr std::int64_t kShort = 1000, kLong = 1000000;
  const std::size_t before = heap_bytes();
  const auto records = std::make_unique<Records>(kLong);
  std::size_t after_short = 0;
  for (std::int64_t s = 0; s < kLong; ++s) {
    records->step(s);
    if (s + 1 == kShort) after_short = heap_bytes();
  }
  const std::size_t after_long = heap_bytes();
  std::printf("held after %ld steps: %zu bytes, after %ld: %zu bytes\n", static_cast<long>(kShort),
              after_short - before, static_cast<long>(kLong), after_long - before);
  EXPECT_LE(after_long, after_short + 4096);  // 48 bytes for each step would be 48 MB
  EXPECT_LE(after_long - before, std::size_t{2} << 20);

  const Report report = records->report();
  EXPECT_EQ(report.measured_steps(), kLong - 5);
  EXPECT_EQ(report.skipped, 5);
  EXPECT_LE(report.times.rows.size(), StepRecord::kMostBlocks);
  EXPECT_GT(report.times.rows.size(), StepRecord::kMostBlocks / 4);
  EXPECT_EQ(report.times.row_steps, 256);
  EXPECT_LE(heap_bytes() - before, std::size_t{6} << 20);
  EXPECT_LE(report.p50_s, report.p99_s);
  EXPECT_EQ(records->judge().verdict(kLong, std::nullopt, true).status, Verification::Status::passed);
}

}  // namespace
}  // namespace shard8

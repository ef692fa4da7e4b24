// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/processor.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/profile/synthetic.hpp"

namespace shard8::profile::tests {
namespace {

using std::chrono::milliseconds;

/// What a rank of two threads had in 10 s.
MeasuredUse use_of(double cpu_s, std::int64_t switches, std::optional<double> waited_s) {
  MeasuredUse use{.threads = 2};
  use.begin = {.at = {}, .cpu_s = 3, .switches = 50, .waited_s = 7};
  use.end = {.at = use.begin.at + milliseconds(10000), .cpu_s = 3 + cpu_s, .switches = 50 + switches};
  if (waited_s)
    use.end.waited_s = 7 + *waited_s;
  else
    use.begin.waited_s.reset();
  return use;
}

TEST(Processor, shares_of_threads_and_wall_time) {
  const MeasuredUse use = use_of(15, 200, 4);
  EXPECT_DOUBLE_EQ(use.cpu(), 0.75);
  EXPECT_DOUBLE_EQ(use.switches_per_s(), 20);
  EXPECT_DOUBLE_EQ(use.without_core(), 0.2);
}

TEST(Processor, without_the_count_of_the_kernel_by_switches_and_at_most_what_is_missing) {
  EXPECT_DOUBLE_EQ(use_of(15, 200, {}).without_core(), 0.004 * 200 / 20);
  EXPECT_DOUBLE_EQ(use_of(15, 100000, {}).without_core(), 0.25);
  EXPECT_DOUBLE_EQ(use_of(25, 100000, {}).without_core(), 0);  // libraries may have more threads
}

// Threads that sleep, for other ranks or for work, are no sign of a busy machine.
TEST(Processor, only_threads_with_work_and_no_core_make_a_machine_busy) {
  EXPECT_FALSE(processor_over_ranks(use_of(20, 10, 0.1), one_rank()).busy());
  EXPECT_FALSE(processor_over_ranks(use_of(2, 10, 0.5), one_rank()).busy());
  EXPECT_FALSE(processor_over_ranks(use_of(2, 100, {}), one_rank()).busy());
  EXPECT_TRUE(processor_over_ranks(use_of(17, 10, 1.1), one_rank()).busy());
  EXPECT_TRUE(processor_over_ranks(use_of(17, 400, {}), one_rank()).busy());
}

TEST(Processor, is_reported_over_ranks) {
  ReportInput input{.tokens_per_step = 1};
  input.processor = use_of(15, 200, 4);
  const Report r = Job().reports(3, input)[0];
  ASSERT_TRUE(r.processor);
  EXPECT_EQ(r.processor->cpu, (std::vector{0.75, 0.75, 0.75, 0.75}));
  EXPECT_EQ(r.processor->worst_rank(), 0);
  const std::string text = to_text(r);
  EXPECT_NE(
      text.find("\nprocessor: CPU time / (threads x wall time) 0.75 to 0.75; longest without a core: rank 0 (node00), "
                "20.0 % of its time, 20 involuntary switches/s\n"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("\nwarning: the machine was busy: 4 of 4 ranks had work and no core for more than 5 % of"),
            std::string::npos)
      << text;
  // A quiet run has these lines alone.
  for (const std::string& warning : warnings_of(r)) EXPECT_NE(text.find(warning + '\n'), std::string::npos) << warning;
  ASSERT_FALSE(warnings_of(r).empty());
  EXPECT_EQ(warnings_of(r).back().find("the machine was busy: 4 of 4 ranks"), 0u) << warnings_of(r).back();
  input.processor = use_of(19, 2, 0.1);
  const std::string quiet = to_text(Job().reports(3, input)[0]);
  for (const std::string& warning : warnings_of(Job().reports(3, input)[0]))
    EXPECT_EQ(warning.find("busy"), std::string::npos);
  EXPECT_NE(quiet.find("\nprocessor: "), std::string::npos);
  EXPECT_EQ(quiet.find("warning"), std::string::npos) << quiet;
  EXPECT_FALSE(synthetic_report().processor);
}

/// A thread that computes has its CPU time counted, one that sleeps has not.
TEST(Processor, of_this_process) {
  MeasuredUse use{.begin = processor_use()};
  volatile double x = 0;
  while (processor_use().cpu_s - use.begin.cpu_s < 0.05) x = x + 1;
  const double computed = processor_use().cpu_s;
  std::this_thread::sleep_for(milliseconds(100));
  use.end = processor_use();
  EXPECT_GE(use.end.cpu_s, use.begin.cpu_s + 0.05);
  EXPECT_LT(use.end.cpu_s - computed, 0.05);
  EXPECT_GT(use.cpu(), 0);
  EXPECT_LT(use.cpu(), 0.9);
  EXPECT_GE(use.end.switches, use.begin.switches);
  EXPECT_GE(use.without_core(), 0);
}

}  // namespace
}  // namespace shard8::profile::tests

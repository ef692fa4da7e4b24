// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/processor.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

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

/// The same rank on CPUs where programs ran for `all_s`, the rank itself for `own_s` of it.
MeasuredUse on_cpus(std::vector<int> cpus, double own_s, double all_s) {
  MeasuredUse use = use_of(own_s, 0, 0);
  use.begin.cpus = {"node", cpus, 100};
  use.end.cpus = {"node", std::move(cpus), 100 + all_s};
  return use;
}

/// What rank 0 finds of a job of these ranks.
ProcessorFigures figures_of(const std::vector<MeasuredUse>& ranks) {
  std::vector<std::vector<double>> told;
  ProcessorFigures figures;
  for (std::size_t r = ranks.size(); r-- > 0;) {
    Gather gather = one_rank();
    gather.ranks = static_cast<int>(ranks.size());
    gather.doubles = [&](std::span<const double> mine) {
      told.insert(told.begin(), {mine.begin(), mine.end()});
      std::vector<double> all;
      if (r == 0)
        for (const auto& of_rank : told) all.insert(all.end(), of_rank.begin(), of_rank.end());
      return all;
    };
    figures = processor_over_ranks(ranks[r], gather);
  }
  return figures;
}

// In 10 s; 0.02 s are not resolved.
TEST(Processor, other_programs_on_the_cpus_of_ranks) {
  EXPECT_EQ(figures_of({on_cpus({0, 1}, 9, 9)}).others, std::vector{0.0});
  EXPECT_EQ(figures_of({on_cpus({0, 1}, 9, 8.9)}).others, std::vector{0.0});  // ticks against exact times
  EXPECT_NEAR(figures_of({on_cpus({0, 1}, 9, 13.02)}).others.at(0), 4 / 20.0, 1e-12);
  // Ranks that share CPUs are no others to each other.
  const auto shared = figures_of({on_cpus({0, 1, 2, 3}, 9, 20.02), on_cpus({0, 1, 2, 3}, 7, 20.02)});
  EXPECT_NEAR(shared.others.at(0), 4 / 40.0, 1e-12);
  EXPECT_EQ(shared.others.at(1), shared.others.at(0));
  // One of two ranks that are bound has another program beside it.
  const auto bound = figures_of({on_cpus({0, 2}, 9, 9), on_cpus({1, 3}, 7, 12.02)});
  EXPECT_EQ(bound.others.at(0), 0);
  EXPECT_NEAR(bound.others.at(1), 5 / 20.0, 1e-12);
  EXPECT_EQ(bound.most_shared_rank(), 1);
  EXPECT_TRUE(bound.busy());
  // The same CPUs of another node.
  MeasuredUse elsewhere = on_cpus({0, 1}, 7, 12.02);
  elsewhere.begin.cpus.node = elsewhere.end.cpus.node = "other node";
  const auto apart = figures_of({on_cpus({0, 1}, 9, 9), elsewhere});
  EXPECT_EQ(apart.others.at(0), 0);
  EXPECT_NEAR(apart.others.at(1), 0.25, 1e-12);
  // Not known, or of no matter.
  MeasuredUse device = on_cpus({0, 1}, 1, 15);
  device.on_cpus = false;
  MeasuredUse moved = on_cpus({0, 1}, 1, 15);
  moved.begin.cpus.cpus = {0};
  EXPECT_EQ(figures_of({device, moved, use_of(15, 200, 4)}).others, (std::vector{0.0, 0.0, 0.0}));
}

TEST(Processor, other_programs_make_a_machine_busy_though_ranks_have_cores) {
  EXPECT_FALSE(figures_of({on_cpus({0, 1}, 9, 9.4)}).busy());
  EXPECT_TRUE(figures_of({on_cpus({0, 1}, 9, 9.5)}).busy());
  ReportInput input{.tokens_per_step = 1};
  input.processor = on_cpus({0, 1, 2, 3, 4, 5, 6, 7}, 9, 46.02);
  const Report r = Job().reports(3, input)[0];
  const std::string text = to_text(r);
  EXPECT_NE(
      text.find("involuntary switches/s; other programs: 12.5 % of the time of the CPUs of rank 0 (node00)\n"
                "warning: the machine was busy: other programs took more than 2 % of the CPUs of 4 of 4 ranks: take "
                "no figures from this run\n"),
      std::string::npos)
      << text;
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

/// A rank on whose core the fixed piece of work took these times.
MeasuredUse with_work(std::vector<double> seconds) {
  MeasuredUse use = use_of(15, 0, 0);
  for (const double s : seconds) use.speed.add({s, 0});
  return use;
}

TEST(Processor, cores_that_something_slows) {
  MeasuredUse device = with_work({0.25, 0.5});
  device.on_cpus = false;
  const auto figures = figures_of({with_work({0.25, 0.25}), with_work({0.375, 0.25, 0.3125}), device, with_work({})});
  EXPECT_EQ(figures.work_s, (std::vector{0.25, 0.3125, 0.0, 0.0}));
  EXPECT_EQ(figures.slowed.at(0), 0);
  EXPECT_NEAR(figures.slowed.at(1), 0.25, 1e-12);
  EXPECT_EQ(figures.slowed.at(2) + figures.slowed.at(3), 0);
  EXPECT_EQ(figures.most_slowed_rank(), 1);
  ReportInput input{.tokens_per_step = 1};
  input.processor = with_work({0.375, 0.25, 0.3125});
  const std::string text = to_text(Job().reports(3, input)[0]);
  EXPECT_NE(text.find("involuntary switches/s; slowed most: the core of rank 0 (node00), by 25.0 %\n"),
            std::string::npos)
      << text;
}

TEST(CoreSpeed, mean_and_least_of_samples) {
  CoreSpeed speed;
  EXPECT_EQ(speed.mean_s(), 0);
  for (const double s : {5e-6, 4e-6, 6e-6, 1e-3}) speed.add({s, 2e-6});  // the last one lost its core: it counts 16 µs
  EXPECT_EQ(speed.samples(), 4);
  EXPECT_EQ(speed.least_s(), 6e-6);
  EXPECT_NEAR(speed.mean_s(), 2e-6 + (5e-6 + 4e-6 + 6e-6 + 16e-6) / 4, 1e-18);
  EXPECT_NEAR(speed.slowed(), (5 + 4 + 6 + 16) / 16.0 - 1, 1e-12);
  for (int i = 0; i < 12; ++i) speed.add({4e-6, 8e-6});  // now vectors were slowed more
  EXPECT_NEAR(speed.slowed(), (4 * 2 + 12 * 8) / 32.0 - 1, 1e-12);
}

/// Samples that are asked for all the time take little of it, and the work is the same each time.
TEST(CoreSpeed, of_this_core) {
  CoreSpeed speed;
  const auto begin = std::chrono::steady_clock::now();
  while (speed.samples() < 10) speed.sample();
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(90));
  EXPECT_GT(speed.least_s(), 0.2e-6);
  EXPECT_LT(speed.least_s(), 200e-6);
  double least = 1;
  for (int i = 0; i < 100; ++i) {
    const CoreSpeed::Work work = CoreSpeed::work();
    EXPECT_GT(work.integers_s, 0);
    EXPECT_GT(work.vectors_s, 0);
    least = std::min(least, work.integers_s + work.vectors_s);
  }
  EXPECT_LT(least, 2 * speed.least_s());
  EXPECT_GT(least, speed.least_s() / 2);
}

TEST(Processor, behind_each_step) {
  MeasuredUse use{.begin = processor_use()};
  EXPECT_FALSE(use.after_step(false));
  EXPECT_EQ(use.end.at, std::chrono::steady_clock::time_point());
  EXPECT_TRUE(use.after_step(true));
  EXPECT_EQ(use.speed.samples(), 1);  // the second one came too early
  EXPECT_GT(use.end.at, use.begin.at);
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

/// A program beside this one is one of the others, and takes at least what it says itself.
TEST(Processor, of_a_program_beside_this_one) {
  MeasuredUse use{.begin = processor_use()};
  ASSERT_FALSE(use.begin.cpus.cpus.empty());
  const pid_t other = ::fork();
  if (other == 0) {
    volatile double x = 0;
    for (rusage mine{}; mine.ru_utime.tv_sec == 0 && mine.ru_utime.tv_usec < 500000; ::getrusage(RUSAGE_SELF, &mine))
      for (int i = 0; i < 1000000; ++i) x = x + 1;
    ::_exit(0);
  }
  ASSERT_GT(other, 0);
  int status = 0;
  ASSERT_EQ(::waitpid(other, &status, 0), other);
  use.end = processor_use();
  const double wall = std::chrono::duration<double>(use.end.at - use.begin.at).count();
  const double others_s =
      processor_over_ranks(use, one_rank()).others.at(0) * wall * static_cast<double>(use.end.cpus.cpus.size());
  EXPECT_GT(others_s, 0.4);  // of 0.5, counted in ticks
  EXPECT_LE(others_s, wall * static_cast<double>(use.end.cpus.cpus.size()));
}

TEST(PeakFlops, of_devices_by_their_names) {
  EXPECT_EQ(peak_flops("NVIDIA H200", Products::fp8), 1978.9e12);
  EXPECT_EQ(peak_flops("NVIDIA H200", Products::bf16), 989.4e12);
  EXPECT_EQ(peak_flops("NVIDIA H200", Products::fp32), 67e12);
  EXPECT_EQ(peak_flops("NVIDIA H200 NVL", Products::bf16), 835.5e12);
  EXPECT_EQ(peak_flops("NVIDIA H100 80GB HBM3", Products::bf16), 989.4e12);
  EXPECT_EQ(peak_flops("NVIDIA H100 PCIe", Products::bf16), 756e12);
  EXPECT_EQ(peak_flops("NVIDIA GH200 480GB", Products::fp8), 1978.9e12);
  EXPECT_EQ(peak_flops("NVIDIA A100-SXM4-80GB", Products::bf16), 312e12);
  EXPECT_EQ(peak_flops("NVIDIA A100-SXM4-80GB", Products::fp8), 0);
  EXPECT_EQ(peak_flops("NVIDIA B200", Products::bf16), 2250e12);
  EXPECT_EQ(peak_flops("NVIDIA GB200", Products::fp8), 5000e12);
}

TEST(PeakFlops, of_others_are_not_guessed) {
  for (const char* device :
       {"", "NVIDIA H100", "NVIDIA RTX A1000", "NVIDIA H20", "NVIDIA H2000", "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "NVIDIA A100-SXM4-40GB MIG 3g.20gb", "NVIDIA H200 MIG 7g.141gb"})
    EXPECT_EQ(peak_flops(device, Products::bf16), 0) << device;
}

}  // namespace
}  // namespace shard8::profile::tests

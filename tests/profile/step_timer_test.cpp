// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/step_timer.hpp"

#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <chrono>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/profile/fake_clock.hpp"

namespace shard8::profile::tests {
namespace {

TEST(StepTimer, every_moment_belongs_to_one_phase) {
  StepTimer timer(std::make_unique<HostClock>(fake_now));
  timer.begin_step();
  advance(1);
  {
    const auto data = timer.phase(Phase::data);
    advance(10);
  }
  advance(2);
  {
    const auto forward = timer.phase(Phase::forward);
    advance(100);
    {
      const auto wait = timer.phase(Phase::gather_wait);
      advance(30);
    }
    advance(200);
  }
  timer.end_step();
  const StepTimes t = timer.steps().blocks().back().sum;
  EXPECT_NEAR(phase_ms(t, Phase::data), 10, kTolerance);
  EXPECT_NEAR(phase_ms(t, Phase::forward), 300, kTolerance);
  EXPECT_NEAR(phase_ms(t, Phase::gather_wait), 30, kTolerance);
  EXPECT_NEAR(phase_ms(t, Phase::other), 3, kTolerance);
  EXPECT_NEAR(1e3 * t.total, 343, kTolerance);
  EXPECT_NEAR(std::accumulate(t.phase.begin(), t.phase.end(), 0.0), t.total, 1e-12);
}

TEST(StepTimer, parts_of_forward_and_backward) {
  StepTimer timer(std::make_unique<HostClock>(fake_now));
  timer.begin_step();
  {
    const auto forward = timer.phase(Phase::forward);
    advance(1);
    {
      const auto attention = timer.part(Part::attention);
      advance(10);
      {
        const auto gemm = timer.part(Part::gemm);  // suspends attention
        advance(20);
        const auto wait = timer.phase(Phase::gather_wait);  // suspends gemm and forward
        advance(40);
      }
      advance(80);
    }
  }
  {
    const auto backward = timer.phase(Phase::backward);
    const auto comm = timer.part(Part::tensor_comm);
    advance(300);
  }
  {
    const auto optimizer = timer.phase(Phase::optimizer);
    const auto part = timer.part(Part::elementwise);  // opens a region only
    advance(500);
  }
  timer.end_step();
  const StepTimes t = timer.steps().blocks().back().sum;
  EXPECT_NEAR(phase_ms(t, Phase::forward), 111, kTolerance);
  EXPECT_NEAR(part_ms(t, 0, Part::attention), 90, kTolerance);
  EXPECT_NEAR(part_ms(t, 0, Part::gemm), 20, kTolerance);
  EXPECT_NEAR(phase_ms(t, Phase::gather_wait), 40, kTolerance);
  EXPECT_NEAR(part_ms(t, 1, Part::tensor_comm), 300, kTolerance);
  EXPECT_NEAR(phase_ms(t, Phase::backward), 300, kTolerance);
  EXPECT_NEAR(phase_ms(t, Phase::optimizer), 500, kTolerance);
  for (int direction : {0, 1}) EXPECT_EQ(part_ms(t, direction, Part::elementwise), 0);
}

TEST(StepTimer, omits_costly_marks_between_parts) {
  int marks = 0;
  StepTimer timer(std::make_unique<CostlyClock>(marks));
  timer.begin_step();
  {
    const auto forward = timer.phase(Phase::forward);
    for (const auto& [part, ms] :
         {std::pair(Part::gemm, 10), {Part::gemm, 20}, {Part::elementwise, 5}, {Part::gemm, 7}}) {
      const auto scope = timer.part(part);
      advance(ms);
    }
  }
  advance(1);
  timer.end_step();
  const StepTimes t = timer.steps().blocks().back().sum;
  EXPECT_NEAR(part_ms(t, 0, Part::gemm), 37, kTolerance);
  EXPECT_NEAR(part_ms(t, 0, Part::elementwise), 5, kTolerance);
  EXPECT_NEAR(phase_ms(t, Phase::forward), 42, kTolerance);
  EXPECT_NEAR(phase_ms(t, Phase::other), 1, kTolerance);
  // One mark at the begin of the phase, one at each of three parts that differ from the part before, one at the end of
  // the phase, one at the end of the step.
  EXPECT_EQ(marks, 6);
}

// Parts of other phases than forward and backward are not reported, so they cost no marks.
TEST(StepTimer, marks_no_parts_that_it_does_not_report) {
  int marks = 0;
  StepTimer timer(std::make_unique<CostlyClock>(marks));
  timer.begin_step();
  {
    const auto optimizer = timer.phase(Phase::optimizer);
    for (const auto part : {Part::elementwise, Part::gemm, Part::elementwise}) {
      const auto scope = timer.part(part);
      advance(10);
    }
  }
  timer.end_step();
  EXPECT_NEAR(phase_ms(timer.steps().blocks().back().sum, Phase::optimizer), 30, kTolerance);
  EXPECT_EQ(marks, 3);  // at the begin and at the end of the phase, and at the end of the step
}

TEST(StepTimer, an_exception_ends_the_phase) {
  StepTimer timer(std::make_unique<HostClock>(fake_now));
  timer.begin_step();
  try {
    const auto forward = timer.phase(Phase::forward);
    const auto gemm = timer.part(Part::gemm);
    advance(5);
    throw std::runtime_error("in the middle");
  } catch (const std::runtime_error&) {
  }
  advance(7);
  timer.end_step();
  const StepTimes t = timer.steps().blocks().back().sum;
  EXPECT_NEAR(phase_ms(t, Phase::forward), 5, kTolerance);
  EXPECT_NEAR(part_ms(t, 0, Part::gemm), 5, kTolerance);
  EXPECT_NEAR(phase_ms(t, Phase::other), 7, kTolerance);
}

TEST(StepTimer, steps_are_kept_apart) {
  StepTimer timer(std::make_unique<HostClock>(fake_now));
  for (int step = 1; step <= 3; ++step) {
    timer.begin_step();
    const auto data = timer.phase(Phase::data);
    advance(step);
    const double between = step == 1 ? 0 : 1000;
    EXPECT_NEAR(1e3 * timer.end_step(), between + step, kTolerance);
    advance(1000);  // between steps: counts for the next step
  }
  ASSERT_EQ(timer.steps().blocks().size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const double between = i == 0 ? 0 : 1000, own = static_cast<double>(i + 1);
    EXPECT_NEAR(1e3 * timer.steps().blocks()[i].sum.total, between + own, kTolerance);
    EXPECT_NEAR(phase_ms(timer.steps().blocks()[i].sum, Phase::data), own, kTolerance);
    EXPECT_NEAR(phase_ms(timer.steps().blocks()[i].sum, Phase::other), between, kTolerance);
  }
}

// A phase between two steps belongs to the step after it; the step starts where the one before ended all the same.
TEST(StepTimer, a_phase_between_steps_counts_for_the_next_step) {
  StepTimer timer(std::make_unique<HostClock>(fake_now));
  for (int step = 1; step <= 2; ++step) {
    timer.begin_step();
    {
      const auto data = timer.phase(Phase::data);
      advance(10);
    }
    timer.end_step();
    advance(1);
    timer.begin_early();
    {
      const auto stall = timer.phase(Phase::checkpoint_stall);
      advance(100);
    }
    timer.begin_early();  // more than once between two steps
    {
      const auto stall = timer.phase(Phase::checkpoint_stall);
      advance(200);
    }
    advance(2);
  }
  ASSERT_EQ(timer.steps().blocks().size(), 2u);  // what came after the last step belongs to none
  EXPECT_NEAR(1e3 * timer.steps().blocks()[0].sum.total, 10, kTolerance);
  const StepTimes t = timer.steps().blocks()[1].sum;
  EXPECT_NEAR(1e3 * t.total, 313, kTolerance);
  EXPECT_NEAR(phase_ms(t, Phase::checkpoint_stall), 300, kTolerance);
  EXPECT_NEAR(phase_ms(t, Phase::data), 10, kTolerance);
  EXPECT_NEAR(phase_ms(t, Phase::other), 3, kTolerance);
}

// Neither the discarded step nor the time between it and the next step counts.
TEST(StepTimer, a_discarded_step_counts_nowhere) {
  StepTimer timer(std::make_unique<HostClock>(fake_now));
  EXPECT_FALSE(timer.collect_timings());
  timer.begin_step();
  advance(50);
  timer.discard_step();
  advance(60);
  timer.begin_step();
  advance(3);
  timer.end_step();
  EXPECT_TRUE(timer.collect_timings());
  EXPECT_FALSE(timer.collect_timings());
  ASSERT_EQ(timer.steps().blocks().size(), 1u);
  EXPECT_NEAR(1e3 * timer.steps().blocks()[0].sum.total, 3, kTolerance);
}

// Timings of a step that are collected during the next step are the same.
TEST(StepTimer, timings_are_collected_in_the_next_step) {
  StepTimer timer(std::make_unique<HostClock>(fake_now));
  for (int step = 1; step <= 2; ++step) {
    timer.begin_step();
    const auto forward = timer.phase(Phase::forward);
    const auto gemm = timer.part(Part::gemm);
    advance(10 * step);
    EXPECT_EQ(timer.collect_timings(), step == 2);
    advance(step);
    timer.end_step();
  }
  ASSERT_EQ(timer.steps().blocks().size(), 2u);
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_NEAR(part_ms(timer.steps().blocks()[i].sum, 0, Part::gemm), 11.0 * static_cast<double>(i + 1), kTolerance);
}

TEST(StepTimer, follows_the_real_clock) {
  StepTimer timer;
  timer.begin_step();
  {
    const auto forward = timer.phase(Phase::forward);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  timer.end_step();
  const StepTimes t = timer.steps().blocks().back().sum;
  EXPECT_GE(phase_ms(t, Phase::forward), 20);
  EXPECT_LE(t.phase[static_cast<std::size_t>(Phase::forward)], t.total);
}

// The calls that a Kokkos connector gets.
std::vector<std::string>& seen() {
  static std::vector<std::string> regions;
  return regions;
}
void push(const char* name) { seen().push_back(std::string("push ") + name); }
void pop() { seen().push_back("pop"); }

TEST(Regions, are_balanced_and_named) {
  StepTimer timer;
  seen().clear();
  Kokkos::Tools::Experimental::set_push_region_callback(push);
  Kokkos::Tools::Experimental::set_pop_region_callback(pop);
  timer.begin_step();
  try {
    const auto forward = timer.phase(Phase::forward);
    { const auto gemm = timer.part(Part::gemm); }
    { const auto gather = timer.exchange(Exchange::qkv_fprop); }
    const auto wait = timer.phase(Phase::gather_wait);
    throw 1;
  } catch (int) {
  }
  {
    const auto backward = timer.phase(Phase::backward);
    const auto attention = timer.part(Part::attention);
  }
  { const auto norm = timer.part(Part::elementwise); }
  timer.end_step();
  timer.begin_early();
  { const auto stall = timer.phase(Phase::checkpoint_stall); }
  Kokkos::Tools::Experimental::set_push_region_callback(nullptr);
  Kokkos::Tools::Experimental::set_pop_region_callback(nullptr);
  const std::vector<std::string> expected = {"push shard8::step::forward",
                                             "push shard8::forward::gemm",
                                             "pop",
                                             "push shard8::forward::tensor_comm",
                                             "pop",
                                             "push shard8::step::gather_wait",
                                             "pop",
                                             "pop",
                                             "push shard8::step::backward",
                                             "push shard8::backward::attention",
                                             "pop",
                                             "pop",
                                             "push shard8::other::elementwise",
                                             "pop",
                                             "push shard8::step::checkpoint_stall",
                                             "pop"};
  EXPECT_EQ(seen(), expected);
}

}  // namespace
}  // namespace shard8::profile::tests

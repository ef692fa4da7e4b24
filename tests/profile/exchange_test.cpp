// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/phase.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "tests/profile/fake_clock.hpp"
#include "tests/profile/synthetic.hpp"

namespace shard8::profile::tests {
namespace {

TEST(Exchange, those_of_experts_have_rows_where_there_are_experts) {
  StepTimes step;
  step.exchange[static_cast<std::size_t>(Exchange::dispatch)] = 3;
  const auto rows = exchange_rows(step, 1, ExchangeMethods{}, one_rank());
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0].name, "routing");
  EXPECT_EQ(rows[1].exposed.mean, 3);
  EXPECT_EQ(rows[3].name, "all");
  step.exchange[static_cast<std::size_t>(Exchange::head_fprop)] = 1;
  EXPECT_EQ(exchange_rows(step, 1, ExchangeMethods{}, one_rank()).size(), static_cast<std::size_t>(kExchanges + 1));
}

TEST(Exchange, names_are_unique) {
  std::set<std::string_view> names;
  for (int e = 0; e < kExchanges; ++e) names.insert(name_of(static_cast<Exchange>(e)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kExchanges));
  EXPECT_EQ(name_of(Exchange::qkv_fprop), "qkv_fprop");
  EXPECT_EQ(name_of(Exchange::cross_entropy), "cross_entropy");
}

/// Of an exchange; without one, of tensor_comm that counts as none.
double exchange_ms(const StepTimes& t, Exchange e) { return 1e3 * t.exchange[static_cast<std::size_t>(e)]; }
double exchange_ms(const StepTimes& t) { return 1e3 * t.exchange[kExchanges]; }

/// A forward and a backward with exchanges, as a model has them. Every interval has another length.
void exchange_in_a_step(StepTimer& timer) {
  timer.begin_step();
  {
    const auto forward = timer.phase(Phase::forward);
    {
      const auto gather = timer.exchange(Exchange::qkv_fprop);
      advance(1);
      const auto wait = timer.phase(Phase::gather_wait);  // suspends the exchange
      advance(2);
    }
    {
      const auto gemm = timer.part(Part::gemm);
      advance(4);
      const auto inside = timer.exchange(Exchange::proj_fprop);  // suspends gemm
      advance(8);
    }
    const auto amax = timer.part(Part::tensor_comm);
    advance(16);
  }
  {
    const auto backward = timer.phase(Phase::backward);
    for (const auto& [exchange, ms] :
         {std::pair(Exchange::qkv_fprop, 32), {Exchange::qkv_dgrad, 64}, {Exchange::qkv_dgrad, 128}}) {
      const auto scope = timer.exchange(exchange);
      advance(ms);
    }
    const auto amax = timer.part(Part::tensor_comm);
    advance(256);
  }
  {
    const auto wait = timer.phase(Phase::reduce_wait);
    const auto part = timer.exchange(Exchange::fc1_wgrad);  // of no part that is reported
    advance(512);
  }
  timer.end_step();
}

void expect_exchanges(const StepTimes& t) {
  EXPECT_NEAR(exchange_ms(t, Exchange::qkv_fprop), 33, kTolerance);  // in forward, and recomputed in backward
  EXPECT_NEAR(exchange_ms(t, Exchange::proj_fprop), 8, kTolerance);
  EXPECT_NEAR(exchange_ms(t, Exchange::qkv_dgrad), 192, kTolerance);
  EXPECT_EQ(exchange_ms(t, Exchange::fc1_wgrad), 0);
  EXPECT_NEAR(exchange_ms(t), 272, kTolerance);
  EXPECT_NEAR(part_ms(t, 0, Part::tensor_comm), 25, kTolerance);
  EXPECT_NEAR(part_ms(t, 1, Part::tensor_comm), 480, kTolerance);
  EXPECT_NEAR(1e3 * std::accumulate(t.exchange.begin(), t.exchange.end(), 0.0), 505, kTolerance);
  EXPECT_NEAR(part_ms(t, 0, Part::gemm), 4, kTolerance);
  EXPECT_NEAR(phase_ms(t, Phase::reduce_wait), 512, kTolerance);
}

TEST(StepTimer, exchanges_of_forward_and_backward) {
  StepTimer timer(std::make_unique<HostClock>(fake_now));
  exchange_in_a_step(timer);
  expect_exchanges(timer.steps().blocks().back().sum);
}

TEST(StepTimer, exchanges_with_costly_marks) {
  int marks = 0;
  StepTimer timer(std::make_unique<CostlyClock>(marks));
  exchange_in_a_step(timer);
  expect_exchanges(timer.steps().blocks().back().sum);
}

/// Products of experts count as gemm, too; what is inside them or between them does not count as products of experts.
void products_in_a_step(StepTimer& timer) {
  timer.begin_step();
  {
    const auto forward = timer.phase(Phase::forward);
    {
      const auto router = timer.part(Part::gemm);
      advance(1);
    }
    const StepTimer::OfExperts experts(timer);
    {
      const auto product = timer.part(Part::gemm);
      advance(2);
      const auto exchange = timer.exchange(Exchange::dispatch);  // suspends the product
      advance(4);
    }
    const auto activation = timer.part(Part::elementwise);
    advance(8);
  }
  {
    const auto backward = timer.phase(Phase::backward);
    {
      const StepTimer::OfExperts experts(timer);
      const auto product = timer.part(Part::gemm);
      advance(16);
    }
    const auto qkv = timer.part(Part::gemm);
    advance(32);
  }
  timer.end_step();
}

TEST(StepTimer, products_of_experts) {
  int marks = 0;
  for (const bool costly : {false, true}) {
    StepTimer timer(costly ? std::unique_ptr<StepClock>(std::make_unique<CostlyClock>(marks))
                           : std::make_unique<HostClock>(fake_now));
    products_in_a_step(timer);
    const StepTimes& t = timer.steps().blocks().back().sum;
    EXPECT_NEAR(1e3 * t.experts, 18, kTolerance);
    EXPECT_NEAR(part_ms(t, 0, Part::gemm), 3, kTolerance);
    EXPECT_NEAR(part_ms(t, 1, Part::gemm), 48, kTolerance);
    EXPECT_NEAR(exchange_ms(t, Exchange::dispatch), 4, kTolerance);
  }
}

// An exchange needs as many marks as a part, and one more where another exchange follows at once.
TEST(StepTimer, exchanges_omit_costly_marks) {
  using Exchanges = std::vector<Exchange>;
  const auto marks_of = [](const Exchanges& exchanges) {
    int marks = 0;
    StepTimer timer(std::make_unique<CostlyClock>(marks));
    timer.begin_step();
    {
      const auto forward = timer.phase(Phase::forward);
      for (const Exchange exchange : exchanges) const auto scope = timer.exchange(exchange);
    }
    timer.end_step();
    return marks;
  };
  // At the begin of the phase, of the first exchange, at the end of the phase and of the step.
  EXPECT_EQ(marks_of({Exchange::fc1_fprop}), 4);
  EXPECT_EQ(marks_of({Exchange::fc1_fprop, Exchange::fc1_fprop}), 4);
  EXPECT_EQ(marks_of({Exchange::fc1_fprop, Exchange::fc2_fprop}), 5);
}

}  // namespace
}  // namespace shard8::profile::tests

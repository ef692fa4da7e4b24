// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// RandomExchanges of ranks that are late at random places, each on a device of its own. What a rank gave is replaced as
// soon as it may, and what it has read is overwritten at once.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/comm/nccl/job.hpp"

namespace shard8::comm::tests {
namespace {

using nccl::Gather;
using tensor::DType;
using tensor::Tensor;

constexpr int kSteps = 1000, kOfBatch = 20;  ///< steps; those between which the host does not wait for the device

/// FP8 bytes with scales, which are gathered, and rows that are summed; of each step of a batch.
struct RandomExchanges {
  static constexpr std::int64_t kTokens = 48, kCols = 2048, kScales = 96, kRows = 20011;
  static constexpr int kAddend = 100;  ///< salt of the addends

  explicit RandomExchanges(Job& job)
      : j(job),
        n(job.world.size()),
        own{job.allocate({kTokens, kCols}, DType::e4m3), job.allocate({kScales}, DType::fp32)},
        whole{job.allocate({kTokens * n, kCols}, DType::e4m3), job.allocate({kScales * n}, DType::fp32)},
        columns(job.allocate({kTokens, kCols * n}, DType::e4m3)),
        through(job.allocate({kTokens * n, kCols}, DType::e4m3)),
        partial_sums(job.allocate({kRows * n}, DType::fp32)),
        out(job.allocate({kRows}, DType::fp32)),
        addend(filled(out.shape, DType::fp32, kAddend)),
        memory(job.overlapped->reduce_memory(Communicator::reduce_memory_bytes(out.bytes(), n))) {
    for (int i = 0; i < kOfBatch; ++i) {
      tokens.push_back(filled(own[0].shape, DType::e4m3, i));
      scales.push_back(filled(own[1].shape, DType::fp32, i));
      rows.push_back(filled(partial_sums.shape, DType::fp32, i));
      seen_tokens.push_back(job.allocate(whole[0].shape, DType::e4m3));
      seen_scales.push_back(job.allocate(whole[1].shape, DType::fp32));
      for (int k = 0; k <= n; ++k) seen_rows.push_back(job.allocate(out.shape, DType::fp32));
    }
    finish(j);
  }
  Tensor filled(const tensor::Shape& shape, DType dtype, int salt) {
    Buffer buffer(shape, dtype);
    buffer.fill(j.world.rank(), salt);
    const Tensor t = j.allocate(shape, dtype);
    upload(j, t, buffer.bytes());
    finish(j);
    return t;
  }
  Tensor seen_partial_sum(int step, int k) const { return seen_rows[static_cast<std::size_t>(step * (n + 1) + k)]; }

  Job& j;
  int n;
  std::vector<Tensor> own, whole;
  Tensor columns, through, partial_sums, out, addend;
  std::shared_ptr<DeviceMemory> memory;
  std::vector<Tensor> tokens, scales, rows, seen_tokens, seen_scales, seen_rows;
};

void copy_bytes(const Job& j, const Tensor& to, const Tensor& from) {
  SHARD8_CUDA_CHECK(cudaMemcpyAsync(to.data, from.data, from.bytes(), cudaMemcpyDefault, j.compute));
}
void poison(const Job& j, const Tensor& t) { SHARD8_CUDA_CHECK(cudaMemsetAsync(t.data, 0xff, t.bytes(), j.compute)); }

/// What both ranks do in a step. All ranks draw the same.
struct Step {
  enum { parts, whole, columns } gather;
  int pieces;
  bool in_pieces, left_to_reader, returned, adds;
};
Step draw(std::mt19937& random) {
  const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
  Step step{};
  step.gather = below(3) == 0 ? Step::parts : below(2) == 0 ? Step::whole : Step::columns;
  step.pieces = 1 + below(3);
  step.in_pieces = below(2) == 0;
  step.left_to_reader = below(2) == 0;
  step.returned = below(2) == 0;
  step.adds = below(2) == 0 && (step.in_pieces || !step.left_to_reader);
  return step;
}

/// A gather overlapped with the sum of other rows. Returns how many partial sums the sum was left as.
template <class Delay>
int run_step(RandomExchanges& e, const Step& step, int i, const Delay& delay) {
  const auto at = static_cast<std::size_t>(i);
  Job& j = e.j;
  const Communicator& group = *j.overlapped;
  const int n = e.n;
  using OwnPart = Communicator::OwnPart;
  const OwnPart own_part = step.returned ? OwnPart::returned : OwnPart::copied;
  delay();
  copy_bytes(j, e.own[0], e.tokens[at]);
  copy_bytes(j, e.own[1], e.scales[at]);
  GatherParts parts;
  Request gather;
  if (step.gather == Step::parts) parts = group.all_gather_parts(e.whole, e.own, "fc1_fprop");
  if (step.gather == Step::whole) gather = group.all_gather_in_place(e.whole, e.own, "fc1_dgrad", own_part);
  if (step.gather == Step::columns)
    gather = group.all_gather_columns(e.columns, e.own[0], e.through, "fc1_dgrad", own_part);
  delay();
  tensor::PartialSums sum;
  const Communicator::ReduceScatterItem item{e.out, e.partial_sums, step.adds ? e.addend : Tensor()};
  Request scatter;
  if (step.in_pieces) {
    ScatterParts given = group.reduce_scatter_parts(item, "fc2_fprop");
    for (int k = 1; k <= n; ++k) {
      const int to = given.destination(k);
      for (std::int64_t p = 0; p < step.pieces; ++p) {
        const std::int64_t first = e.kRows * p / step.pieces, count = e.kRows * (p + 1) / step.pieces - first;
        delay();
        copy_bytes(j, e.partial_sums.slice(to * e.kRows + first, count), e.rows[at].slice(to * e.kRows + first, count));
        given.give(to, first, count);
      }
    }
    delay();
    if (step.left_to_reader) {
      sum = given.finish_partial_sums().value_or(e.out);
    } else {
      given.finish();
      sum = e.out;
    }
  } else {
    copy_bytes(j, e.partial_sums, e.rows[at]);
    scatter = step.left_to_reader ? group.reduce_scatter_partial_sums(item, sum, "fc1_wgrad")
                                  : group.reduce_scatter({&item, 1}, "fc1_wgrad");
    if (!step.left_to_reader) sum = e.out;
  }
  delay();
  if (parts.active()) {
    for (int k = 0; k < n; ++k) {
      const int from = parts.arrival(k);
      parts.await(from);
      delay();
      copy_bytes(j, e.seen_tokens[at].slice(from * e.kTokens, e.kTokens), parts.part(0, from));
      copy_bytes(j, e.seen_scales[at].slice(from * e.kScales, e.kScales), parts.part(1, from));
    }
    parts.finish();
  } else {
    gather.wait();
    delay();
    copy_bytes(j, e.seen_tokens[at], step.gather == Step::columns ? e.columns : e.whole[0]);
    if (step.gather == Step::whole) copy_bytes(j, e.seen_scales[at], e.whole[1]);
  }
  if (scatter.active()) scatter.wait();
  delay();
  for (int k = 0; k < sum.count(); ++k) copy_bytes(j, e.seen_partial_sum(i, k), sum[k]);
  for (const Tensor& t : {e.own[0], e.own[1], e.whole[0], e.whole[1], e.columns, e.through, e.partial_sums, e.out})
    poison(j, t);
  poison(j, {e.memory->data(), {static_cast<std::int64_t>(e.memory->bytes())}, DType::u8});
  return sum.count();
}

/// What this rank must see of the i-th input.
struct Expected {
  std::vector<std::byte> tokens, columns, scales;
  std::vector<float> sum;

  Expected(const RandomExchanges& e, int i) : sum(static_cast<std::size_t>(e.kRows)) {
    for (int r = 0; r < e.n; ++r) {
      Buffer token(e.own[0].shape, DType::e4m3), scale(e.own[1].shape, DType::fp32);
      token.fill(r, i);
      scale.fill(r, i);
      tokens.insert(tokens.end(), token.bytes().begin(), token.bytes().end());
      scales.insert(scales.end(), scale.bytes().begin(), scale.bytes().end());
      for (std::int64_t row = 0; row < e.kRows; ++row) {
        const float x = value(r, e.j.world.rank() * e.kRows + row, i);
        float& total = sum[static_cast<std::size_t>(row)];
        total = r == 0 ? x : total + x;
      }
    }
    columns = side_by_side(tokens, static_cast<std::size_t>(e.n), static_cast<std::size_t>(e.kCols));
  }
};

void expect_step(const RandomExchanges& e, const Expected& expected, const Step& step, int i, int partial_sums) {
  const auto at = static_cast<std::size_t>(i);
  const bool columns = step.gather == Step::columns;
  EXPECT_TRUE(download(e.j, e.seen_tokens[at]) == (columns ? expected.columns : expected.tokens));
  EXPECT_TRUE(columns || download(e.j, e.seen_scales[at]) == expected.scales);
  std::vector<float> found(expected.sum.size()), sum = expected.sum;
  for (std::size_t row = 0; row < sum.size() && step.adds; ++row)
    sum[row] += value(e.j.world.rank(), static_cast<std::int64_t>(row), e.kAddend);
  for (int k = 0; k < partial_sums; ++k) {
    const Buffer part = download_buffer(e.j, e.seen_partial_sum(i, k));
    for (std::size_t row = 0; row < found.size(); ++row) {
      const float x = part.get(static_cast<std::int64_t>(row));
      found[row] = k == 0 ? x : found[row] + x;
    }
  }
  EXPECT_TRUE(found == sum) << partial_sums << " partial sums";
}

TEST(ExchangeRaces, of_late_ranks) {
  Job& j = job(Gather::push);
  if (j.world.size() == 1) return;
  RandomExchanges exchanges(j);
  if (exchanges.memory == nullptr) GTEST_SKIP() << "ranks cannot write to each other's memory";
  std::vector<Expected> expected;
  for (int i = 0; i < kOfBatch; ++i) expected.emplace_back(exchanges, i);
  const Block busy(std::size_t{256} << 20);
  std::mt19937 same, own(static_cast<unsigned>(j.world.rank() + 1));
  const auto delay = [&] {
    if (own() % 4 == 0) keep_busy(j, busy, std::size_t{16} << 20, static_cast<int>(own() % 8));
  };
  const auto failed = [&] { return j.world.all_gather(HasFailure() ? "1" : "0"); };
  for (int batch = 0; batch < kSteps / kOfBatch; ++batch) {
    std::vector<Step> steps;
    std::vector<int> partial_sums;
    keep_busy(j, busy, std::size_t{256} << 20, 30);  // some milliseconds, so that the host is ahead of the device
    for (int i = 0; i < kOfBatch; ++i) {
      steps.push_back(draw(same));
      partial_sums.push_back(run_step(exchanges, steps.back(), i, delay));
    }
    finish(j);
    for (int i = 0; i < kOfBatch; ++i) {
      SCOPED_TRACE("step " + std::to_string(batch * kOfBatch + i));
      const auto at = static_cast<std::size_t>(i);
      expect_step(exchanges, expected[at], steps[at], i, partial_sums[at]);
    }
    const std::vector<std::string> of_ranks = failed();
    if (std::count(of_ranks.begin(), of_ranks.end(), "1") > 0) break;
  }
}

}  // namespace
}  // namespace shard8::comm::tests

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <barrier>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "profile/report.hpp"
#include "profile/spread.hpp"

namespace shard8::profile::tests {

inline constexpr int kRanks = 4;

/// A step of 100 ms, chosen so that every result is known. Rank 2 takes 10 ms more in forward's gemm. Step 3 takes 50
/// ms more in gather_wait.
inline StepTimes synthetic_step(int rank, int step) {
  const auto at = [](auto x) { return static_cast<std::size_t>(x); };
  StepTimes t;
  const double slow = rank == 2 ? 0.010 : 0;
  const double stall = step == 3 ? 0.050 : 0;
  t.phase[at(Phase::data)] = 0.001;
  t.phase[at(Phase::gather_wait)] = 0.004 + stall;
  t.phase[at(Phase::forward)] = 0.030 + slow;
  t.phase[at(Phase::backward)] = 0.055;
  t.phase[at(Phase::reduce_wait)] = 0.003;
  t.phase[at(Phase::optimizer)] = 0.004;
  t.phase[at(Phase::quantize)] = 0.002;
  t.phase[at(Phase::other)] = 0.001;
  t.part[0][at(Part::gemm)] = 0.020 + slow;
  t.part[0][at(Part::tensor_comm)] = 0.002;
  t.part[1][at(Part::gemm)] = 0.040;
  t.part[1][at(Part::tensor_comm)] = 0.005;
  // Rank 2 spends more of its 7 ms on one exchange, the others spend the rest on none.
  t.exchange[at(Exchange::fc1_fprop)] = 0.001 + slow / 5;
  t.exchange[at(Exchange::qkv_dgrad)] = 0.004;
  t.exchange[kExchanges] = 0.002 - slow / 5;
  t.total = 0.100 + slow + stall;
  return t;
}

/// Two all-gathers and one all-reduce a step on every rank; the all-reduce is slower on rank 1. Rank 3 also calls one
/// reduce-scatter a step.
inline CollectiveLog synthetic_log(int rank, int steps) {
  const CollectiveKey gather{Collective::all_gather, "shard", 4, "bf16", 8000000};
  const CollectiveKey reduce{Collective::all_reduce, "world", 4, "fp32", 4000};
  const CollectiveKey scatter{Collective::reduce_scatter, "tensor", 2, "fp32", 1000};
  CollectiveLog log;
  for (int s = 0; s < steps; ++s) {
    log.record(gather, 0.004, 0.001);
    log.record(gather, 0.004, 0.001);
    log.record(reduce, rank == 1 ? 0.005 : 0.001, 0.001);
    if (rank == 3) log.record(scatter, 0.5, 0.25);
  }
  return log;
}

/// Two kinds of tensors. Rank r casts 1000000 + r elements of the first and 1000000 of the second.
inline std::vector<CastFigures> synthetic_casts(int rank) {
  const auto r = static_cast<std::uint64_t>(rank);
  return {{"qkv input", "e4m3", 1000000 + r, r, 100 * r, rank == 1 ? 2.5 : 1.25},
          {"fc1 output gradient", "e5m2", 1000000, 0, 50000 * r, 0}};
}

/// Two checkpoints of 4 GB. Rank 1 writes 0.5 GB/s, rank 3 nothing, the others 1 GB/s. After its last step rank r was
/// held up for r tenths of a second.
inline CheckpointCounts synthetic_checkpoints(int rank) {
  return {.written = 2,
          .failed = 1,
          .waited = 1,
          .bytes = 8000000000,
          .durable_s = 5,
          .longest_s = 3,
          .after_last_s = 0.1 * rank,
          .own_bytes = rank == 3 ? 0u : 2000000000u,
          .own_s = rank == 1 ? 4.0 : 2.0};
}

/// The communication of a job of one rank.
inline Gather one_rank() {
  return {.ranks = 1,
          .over_ranks =
              [](std::span<const double> mine) {
                std::vector<OverRanks> all;
                for (const double x : mine) all.push_back(OverRanks::of(x, 0));
                return all;
              },
          .doubles = [](std::span<const double> mine) { return std::vector<double>(mine.begin(), mine.end()); },
          .texts = [](std::string_view text) { return std::vector<std::string>{std::string(text)}; },
          .broadcast = [](std::string&, int) {}};
}

/// A job whose ranks are threads.
class Job {
 public:
  explicit Job(bool with_casts = false, bool with_checkpoints = false)
      : with_casts_(with_casts), with_checkpoints_(with_checkpoints) {}

  /// Changes the input of a rank; empty: nothing.
  std::function<void(int rank, ReportInput& input)> change_input;

  /// Figures leave out the first `skip` of `steps` steps.
  std::array<Report, kRanks> reports(int steps, ReportInput input, int skip = 0) {
    std::array<Report, kRanks> all;
    std::vector<std::thread> ranks;
    for (int r = 0; r < kRanks; ++r) {
      ranks.emplace_back([this, r, steps, skip, &all, input]() mutable {
        StepRecord times(skip);
        for (int s = 0; s < steps; ++s) {
          StepTimes step = synthetic_step(r, s);
          if (with_checkpoints_) step.phase[static_cast<std::size_t>(Phase::checkpoint_stall)] = r == 2 ? 0.05 : 0.01;
          times.add(step);
        }
        input.host = "node0" + std::to_string(r / 2);
        if (change_input) change_input(r, input);
        if (with_casts_) input.casts = synthetic_casts(r);
        if (with_checkpoints_) input.checkpoints = synthetic_checkpoints(r);
        const int measured = steps - skip;
        const Gather gather{
            .ranks = kRanks,
            .over_ranks =
                [this, r](std::span<const double> mine) {
                  const auto of_ranks = exchange(doubles_, r, std::vector<double>(mine.begin(), mine.end()));
                  std::vector<OverRanks> joined;
                  for (std::size_t i = 0; i < mine.size(); ++i) {
                    joined.push_back(OverRanks::of(of_ranks[0][i], 0));
                    for (int other = 1; other < kRanks; ++other)
                      joined[i].join(OverRanks::of(of_ranks[static_cast<std::size_t>(other)][i], other));
                  }
                  return joined;
                },
            .doubles =
                [this, r](std::span<const double> mine) {
                  std::vector<double> joined;
                  for (const auto& of_rank : exchange(doubles_, r, std::vector<double>(mine.begin(), mine.end()))) {
                    if (r == 0) joined.insert(joined.end(), of_rank.begin(), of_rank.end());
                  }
                  return joined;
                },
            .texts =
                [this, r](std::string_view mine) {
                  const auto joined = exchange(texts_, r, std::string(mine));
                  return r == 0 ? std::vector<std::string>(joined.begin(), joined.end()) : std::vector<std::string>();
                },
            .broadcast = [this, r](std::string& text,
                                   int rank) { text = exchange(texts_, r, text)[static_cast<std::size_t>(rank)]; }};
        all[static_cast<std::size_t>(r)] = make_report(times, synthetic_log(r, measured), input, gather);
      });
    }
    for (std::thread& t : ranks) t.join();
    return all;
  }

 private:
  /// Returns the values of all ranks.
  template <class T>
  std::array<T, kRanks> exchange(std::array<T, kRanks>& slots, int rank, T mine) {
    slots[static_cast<std::size_t>(rank)] = std::move(mine);
    barrier_.arrive_and_wait();
    const auto copy = slots;
    barrier_.arrive_and_wait();
    return copy;
  }
  bool with_casts_, with_checkpoints_;
  std::barrier<> barrier_{kRanks};
  std::array<std::vector<double>, kRanks> doubles_;
  std::array<std::string, kRanks> texts_;
};

/// Rank 0's report of 12 steps, the first 2 left out. A step has 10^6 tokens and 10^15 FLOPs.
inline Report synthetic_report(Verification verification = {}, double peak_flops = 0) {
  return Job().reports(12,
                       {.first_step = 0,
                        .tokens_per_step = 1e6,
                        .flops_per_step = 1e15,
                        .peak_flops = peak_flops,
                        .host = "",
                        .verification = std::move(verification)},
                       2)[0];
}

/// Every rank's report, the first 2 steps left out, with casts to 8 bits and emulated matrix products of mxfp8.
inline std::array<Report, kRanks> synthetic_fp8_reports(int steps = 12) {
  ReportInput input;
  input.tokens_per_step = 1e6;
  input.emulated = "mxfp8";
  return Job(true).reports(steps, std::move(input), 2);
}

}  // namespace shard8::profile::tests

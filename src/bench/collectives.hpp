// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "comm/communicator.hpp"
#include "profile/collective_log.hpp"
#include "tensor/dtype.hpp"

struct CUstream_st;  // what CUDA's cudaStream_t points to; hosts without CUDA read this header, too

namespace shard8::bench {

/// One collective to time: all_gather or all_reduce in place, reduce_scatter into rows of the whole, or all_to_all or
/// send_receive to the next rank into as much memory. `bytes` has the bytes of the whole of each tensor of one grouped
/// call. The sizes are rounded up, so that every rank has the same multiple of 16 elements.
struct BenchCase {
  profile::Collective op{};
  tensor::DType dtype{};
  std::vector<std::uint64_t> bytes;
};

/// Cases of one tensor, with sizes from `least` to `most` bytes, each `factor` times the one before.
std::vector<BenchCase> bench_sizes(profile::Collective op, tensor::DType dtype, std::uint64_t least, std::uint64_t most,
                                   int factor);

struct BenchSettings {
  int warmup = 5;
  int repetitions = 20;  ///< calls in a row, as in nccl-tests
};

/// One row of a benchmark, counted as nccl-tests does. `bytes` are those of the whole. `count` is the number of
/// elements that a rank gives to an all-gather, gets from a reduce-scatter, has in an all-reduce, gives to each rank in
/// an all-to-all or sends in a send_receive. `us` is the mean time of a call over repetitions and ranks, `host_us` the
/// time in which the host of the slowest rank issues a call.
struct BenchRow {
  profile::Collective op{};
  std::string dtype;
  std::uint64_t bytes = 0, count = 0;
  int tensors = 1;
  double us = 0, host_us = 0;
  double algbw = 0, busbw = 0;  ///< bytes/s
};

/// Times the cases. Collective over `group`, whose device computes on `compute`. Allocates device memory for the
/// largest case.
std::vector<BenchRow> bench_collectives(const comm::Communicator& group, CUstream_st* compute,
                                        std::span<const BenchCase> cases, const BenchSettings& settings);

/// A table with the columns of nccl-tests. GB is 1e9 bytes.
std::string to_text(std::span<const BenchRow> rows);

/// The sizes least, least * factor, ... that are at most `most`. Error(failed) unless 0 < least <= most and factor > 1:
/// a benchmark of no sizes is none.
inline std::vector<std::uint64_t> sizes_between(std::uint64_t least, std::uint64_t most, int factor) {
  SHARD8_REQUIRE(least > 0 && least <= most && factor > 1, "sizes from {} to {} by a factor of {}", least, most,
                 factor);
  const auto by = static_cast<std::uint64_t>(factor);
  std::vector<std::uint64_t> sizes{least};
  while (sizes.back() <= most / by) sizes.push_back(sizes.back() * by);  // a product beyond 2^64 would begin again
  return sizes;
}

}  // namespace shard8::bench

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "profile/collective_log.hpp"
#include "tensor/dtype.hpp"

namespace shard8::comm::nccl {

/// One collective to time: all_gather or all_reduce in place, or reduce_scatter into the rows of the
/// whole. `bytes` of the whole, of each tensor of one grouped call; rounded up to equal rows of a
/// multiple of 16 elements.
struct BenchCase {
  profile::Collective op{};
  tensor::DType dtype{};
  std::vector<std::uint64_t> bytes;
};

/// Sizes from `least` to `most`, each `factor` times the last, as one tensor.
std::vector<BenchCase> bench_sizes(profile::Collective op, tensor::DType dtype, std::uint64_t least, std::uint64_t most,
                                   int factor);

struct BenchSettings {
  int warmup = 5;
  int repetitions = 20;  ///< in a row, as nccl-tests does
};

/// As nccl-tests counts them: bytes of the whole; elements that a rank gives to an all-gather, gets of a
/// reduce-scatter, or has in an all-reduce. Times are means over repetitions and ranks; `host_us` is the
/// host's own time to start a call, of the slowest rank.
struct BenchRow {
  profile::Collective op{};
  std::string dtype;
  std::uint64_t bytes = 0, count = 0;
  int tensors = 1;
  double us = 0, host_us = 0;
  double algbw = 0, busbw = 0;  ///< bytes/s
};

/// Collective over `group`, whose device computes on `compute`; takes device memory for the largest case.
std::vector<BenchRow> bench_collectives(const Communicator& group, cudaStream_t compute,
                                        std::span<const BenchCase> cases, const BenchSettings& settings);

/// A table in the columns of nccl-tests, GB = 1e9 bytes.
std::string to_text(std::span<const BenchRow> rows);

}  // namespace shard8::comm::nccl

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/overlap.hpp"
#include "comm/communicator.hpp"
#include "profile/collective_log.hpp"

namespace shard8::bench {

struct CollectiveSettings {
  std::uint64_t least = 64 << 10, most = 16 << 20;  ///< bytes of the smallest and the largest whole
  int factor = 8;                                   ///< from one size to the next
  int warmup = 5;                                   ///< calls that are not timed
  int repetitions = 20;                             ///< calls in a row that are
  bool check = true;                                ///< compare the data of one more call
};

/// One kind and size of a collective, counted as nccl-tests does. `bytes` are those of the whole. `count` is the number
/// of elements that a rank gives to an all-gather, gets from a reduce-scatter, has in an all-reduce, gives to each rank
/// in an all-to-all or sends in a send_receive.
struct CollectiveFigures {
  std::string group;
  int ranks = 0;
  profile::Collective op{};
  std::string dtype;
  std::uint64_t bytes = 0, count = 0;
  double us = 0;                ///< of a call, the mean over repetitions and ranks
  double algbw = 0, busbw = 0;  ///< bytes/s
  std::optional<std::uint64_t>
      wrong{};  ///< elements with another value than they must have, on all ranks; nothing: not checked
};

/// Times all-gathers of bytes, reduce-scatters in fp32 and bf16, all-reduces in fp32, and of bytes all-to-alls and
/// send_receives to the next rank, in host memory. Collective over `group`, which has several ranks.
std::vector<CollectiveFigures> bench_host_collectives(const comm::Communicator& group,
                                                      const CollectiveSettings& settings);

/// The mean of busbw over the rows, in bytes/s; 0 without rows. average_text() says it as nccl-tests does, in a line.
double average_busbw(std::span<const CollectiveFigures> rows);
std::string average_text(std::span<const CollectiveFigures> rows);
/// A table with the columns of nccl-tests, and its average bus bandwidth. GB is 1e9 bytes.
std::string to_text(std::span<const CollectiveFigures> rows);
std::string to_json(std::span<const CollectiveFigures> rows, const CollectiveSettings& settings,
                    const Measured& measured);

}  // namespace shard8::bench

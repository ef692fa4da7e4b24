// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(SHARD8_CUDA)

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "bench/bench.hpp"
#include "bench/collectives.hpp"

namespace shard8::app {

/// The collectives that `bench collective` and `calibrate` time on devices.
inline constexpr std::array kTimedCollectives{std::pair{profile::Collective::all_gather, tensor::DType::u8},
                                              std::pair{profile::Collective::reduce_scatter, tensor::DType::fp32},
                                              std::pair{profile::Collective::reduce_scatter, tensor::DType::bf16},
                                              std::pair{profile::Collective::all_reduce, tensor::DType::fp32},
                                              std::pair{profile::Collective::all_to_all, tensor::DType::u8},
                                              std::pair{profile::Collective::send_receive, tensor::DType::u8}};

/// Rows that were timed on devices, in the form of those of hosts. The data of the rows were not checked.
inline std::vector<bench::CollectiveFigures> figures_of(const comm::Communicator& group,
                                                        std::span<const bench::BenchRow> rows) {
  std::vector<bench::CollectiveFigures> figures;
  for (const bench::BenchRow& row : rows)
    figures.push_back({.group = group.name(),
                       .ranks = group.size(),
                       .op = row.op,
                       .dtype = row.dtype,
                       .bytes = row.bytes,
                       .count = row.count,
                       .us = row.us,
                       .algbw = row.algbw,
                       .busbw = row.busbw});
  return figures;
}

}  // namespace shard8::app

#endif

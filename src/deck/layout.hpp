// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "deck/config.hpp"

namespace shard8::deck {

/// How a step's sequences are distributed over ranks. Every data rank runs `micro_batches` micro-batches of
/// `micro_batch` sequences. Sequences beyond the batch are padding of weight 0.
struct Layout {
  std::int64_t ranks = 0;          ///< replicate * shard * tensor
  std::int64_t data_ranks = 0;     ///< P = replicate * shard
  std::int64_t rank_batch = 0;     ///< ceil(batch / P): the most sequences of a data rank
  std::int64_t micro_batch = 0;    ///< sequences in a micro-batch: data.micro_batch, at most rank_batch; 0: rank_batch
  std::int64_t micro_batches = 0;  ///< ceil(rank_batch / micro_batch)
  std::int64_t padding = 0;        ///< sequences of weight 0 in a step, over all data ranks
  std::int64_t tensor_tokens = 0;  ///< micro_batch·seq / tensor: tokens of a micro-batch that a tensor rank holds
};

/// The layout of a Config that load() returned, or of one whose batch, mesh and seq are positive.
Layout lay_out(const Config& config);

/// What `shard8 check` prints: model, mesh, batch, precision, schedule, ..., one line each, with the arithmetic. The
/// Config must come from load().
std::string describe(const Config& config);

}  // namespace shard8::deck

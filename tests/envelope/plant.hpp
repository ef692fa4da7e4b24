// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "deck/config.hpp"
#include "tests/random/trial.hpp"

namespace shard8::test {

/// A fault that happens once in a training.
enum class Fault : std::uint8_t {
  none,
  token,      ///< the last token of a data rank's first micro-batch has weight 0 in the loss of the step
  weight,     ///< before the step one rank's part of a layer's fc1 weight is multiplied by 1 + 2^-8
  row,        ///< the step does not update the row of the table of its first token: master and moments stay
  scale_inv,  ///< in the step the inverse scales of a layer's weight in FP8 are doubled, on all ranks
};
std::string_view name_of(Fault fault);

struct Plant {
  Fault fault = Fault::none;
  std::int64_t step = 0;    ///< from 1 on for `weight` and `scale_inv`
  std::int64_t layer = 0;   ///< of `weight` and `scale_inv`
  std::int64_t linear = 0;  ///< of `scale_inv`: fp8::Linear
};

/// Trains all steps of a deck, in FP32 for `token`, `weight` and `row`, with the fault, on the first ranks of `comm`.
/// On hosts. Collective over `comm`; every rank gets losses and norms. Error(failed) if there is nothing to plant the
/// fault in: no such weight is stored in FP8.
Outcome train_with(const deck::Config& config, const Plant& plant, MPI_Comm comm);

}  // namespace shard8::test

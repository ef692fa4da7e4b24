// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/adamw.hpp"

namespace shard8::tests {

/// Scalars that differ from step to step, with decay and clipping.
inline kernels::AdamwScalars adamw_scalars(std::int64_t step) {
  return {.lr = 1e-2 / static_cast<double>(step + 1),
          .beta1 = 0.9,
          .beta2 = 0.95,
          .eps = 1e-8,
          .weight_decay = 0.1,
          .gradient_scale = 0.3,
          .step = step};
}

}  // namespace shard8::tests

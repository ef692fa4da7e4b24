// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/flops.hpp"

#include "model/parameters.hpp"

namespace shard8::train {

double model_flops_per_token(const deck::ModelConfig& model) {
  const auto attention =
      static_cast<double>(model.layers) * static_cast<double>(model.hidden) * static_cast<double>(model.seq);
  return 6 * static_cast<double>(model::matmul_parameter_count(model)) + 6 * attention;
}

}  // namespace shard8::train

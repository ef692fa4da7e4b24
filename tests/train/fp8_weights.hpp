// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/train/training.hpp"

namespace shard8::test {

/// One gathered weight in FP8, as products read it, and this rank's rows of its master.
struct GatheredWeight {
  std::string name;
  fp8::Site site;
  const model::ParameterSpec* spec = nullptr;
  model::Weight weight;           ///< the copies that the gather brought
  const float* master = nullptr;  ///< this rank's rows
  bool through_bf16 = true;
  std::int64_t first_row = 0, rows = 0, cols = 0;  ///< this rank's rows: [first_row, first_row + rows) of the weight
};

/// Gathers every layer for forward and for backward, with a store of its own, and calls f for each weight in FP8 with
/// the copy for that pass. To be called between two steps. Collective.
void for_each_weight(Training& training, const std::function<void(const GatheredWeight&, fsdp::Pass)>& f);

/// The sum of mix(global index, bits) over the bytes and block scales of all copies of all weights, with indices in
/// Hugging Face's tensors. `part`: over the weights of this tensor rank, the same on every rank of the data group.
/// `whole`: over the whole model, the same on every mesh.
struct WeightHash {
  std::uint64_t part = 0, whole = 0;
};
WeightHash hash_weights(Training& training);

/// The bits of 1/scale of every weight, by site; empty for recipes with blocks.
std::vector<std::uint32_t> weight_scales(Training& training);

}  // namespace shard8::test

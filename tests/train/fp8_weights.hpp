// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/train/training.hpp"

namespace shard8::test {

/// One weight in FP8 as products read it: gathered, with this rank's rows of its master.
struct GatheredWeight {
  std::string name;
  fp8::Site site;
  const model::ParameterSpec* spec = nullptr;
  model::Weight weight;           ///< both copies, of a gather for each pass
  const float* master = nullptr;  ///< first owned row
  bool through_bf16 = true;
  std::int64_t first_row = 0, rows = 0, cols = 0;  ///< owned rows, where they are in the whole
};

/// Gathers every layer, forward and backward, with a store of its own between two steps, and calls f
/// for each weight in FP8, with only the copy of that pass.
void for_each_weight(Training& training, const std::function<void(const GatheredWeight&, fsdp::Pass)>& f);

/// Σ over elements of mix(global index, bits) of the bytes and block scales of all copies of all
/// weights, in the coordinates of Hugging Face tensors: of this rank's part, which every rank of the
/// data group must have alike, and of the whole model, the same on every mesh.
struct WeightHash {
  std::uint64_t part = 0, whole = 0;
};
WeightHash hash_weights(Training& training);

/// The bits of 1/scale of every weight, by site; empty for recipes with blocks.
std::vector<std::uint32_t> weight_scales(Training& training);

}  // namespace shard8::test

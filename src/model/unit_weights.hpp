// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fsdp/weight_store.hpp"
#include "model/fp8_weights.hpp"

namespace shard8::model {

/// The weights of a pass: gathered when they are asked for, as products read them.
class UnitWeights {
 public:
  UnitWeights(fsdp::WeightStore& store, const Fp8Weights& fp8) : store_(store), fp8_(fp8) {}

  /// See WeightStore.
  std::vector<Weight> acquire(int unit, fsdp::Pass pass) { return fp8_.bind(unit, store_.acquire(unit, pass)); }
  std::vector<Weight> in_use(int unit) const { return fp8_.bind(unit, store_.in_use(unit)); }
  void release(int unit) { store_.release(unit); }

 private:
  fsdp::WeightStore& store_;
  const Fp8Weights& fp8_;
};

}  // namespace shard8::model

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>

#include "fsdp/weight_store.hpp"
#include "model/fp8_weights.hpp"

namespace shard8::model {

/// The weights of a pass: gathered when they are asked for, as products read them. What is handed out is
/// in memory of this object, until the next time.
class UnitWeights {
 public:
  UnitWeights(fsdp::WeightStore& store, const Fp8Weights& fp8) : store_(store), fp8_(fp8) {}
  UnitWeights(const UnitWeights&) = delete;
  UnitWeights& operator=(const UnitWeights&) = delete;

  /// See WeightStore.
  std::span<const Weight> acquire(int unit, fsdp::Pass pass) {
    return fp8_.bind(weights_, unit, store_.acquire(unit, pass));
  }
  std::span<const Weight> in_use(int unit) { return fp8_.bind(weights_, unit, store_.in_use(unit)); }
  void release(int unit) { store_.release(unit); }

 private:
  fsdp::WeightStore& store_;
  const Fp8Weights& fp8_;
  std::array<Weight, kMostParameters> weights_;
};

}  // namespace shard8::model

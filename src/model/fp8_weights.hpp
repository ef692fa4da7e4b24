// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "fp8/scaling_state.hpp"
#include "fsdp/gather_hooks.hpp"
#include "fsdp/unit_buffers.hpp"
#include "model/affine.hpp"
#include "model/parameters.hpp"

namespace shard8::model {

/// The weights of all units between the optimizer and the products: FP8 shards made of masters, what
/// is written and converted around a gather, and what a product reads of what was gathered. Where
/// nothing is in FP8 it is the casts between master, travelling and compute dtype alone.
///
/// A weight's values are those of bf16(master), its scale that of the whole fused weight (per tensor)
/// or of its blocks, so that at equal masters bytes and scales are the same on every mesh.
class Fp8Weights {
 public:
  Fp8Weights(const tensor::Exec& exec, const WeightFormat& format, const std::vector<UnitSpec>& units,
             const fsdp::UnitBuffers& buffers, fp8::ScalingState& state);

  /// Scales and stored shards of the initial masters. `model_group` owns every parameter once.
  void initialise(const comm::Communicator& model_group);

  /// What the optimizer makes of an updated weight in the same pass: its amax (per-tensor recipes),
  /// and its stored FP8 (delayed).
  kernels::Outputs update_outputs(int unit, int parameter) const;
  /// After the optimizer: one reduction for the amaxes of all weights (current).
  void reduce_amaxes(const comm::Communicator& model_group) const;
  /// Then the scales that come of it, and the stored shards.
  void after_update();

  fsdp::GatherHooks hooks() const;
  /// What products read of a gathered unit, a parameter each: the first of `weights`, which must be enough.
  std::span<const Weight> bind(std::span<Weight> weights, int unit, const fsdp::GatheredUnit& gathered) const;

 private:
  fp8::Site site(int unit, int parameter) const;
  void store_all(bool again) const;
  /// `again`: out holds the same weight of the step before. Padding is cast, and counted, too.
  void quantize(const fp8::Site& site, const fsdp::CopyTensors& out, const tensor::Tensor& source, bool again) const;
  tensor::Operand operand(const fp8::Site& site, const std::vector<tensor::Tensor>& pieces,
                          tensor::Scaling scaling) const;
  template <class F>
  void for_each_weight(const F& f) const;

  const tensor::Exec& exec_;
  WeightFormat format_;
  std::vector<std::vector<fp8::Site>> sites_;
  const fsdp::UnitBuffers& buffers_;
  fp8::ScalingState& state_;
};

}  // namespace shard8::model

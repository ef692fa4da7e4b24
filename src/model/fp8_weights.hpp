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

/// The weights of all units on their way from the optimizer to the products: casts masters to FP8 shards, casts what
/// travels before and after a gather, and says what a product reads of a gathered unit. Weights that are not in FP8
/// are cast between master, travelling and compute dtype only.
///
/// An FP8 weight is the cast of bf16(master). Its scale is that of the whole fused weight, or of its blocks, so that
/// equal masters give equal bytes and scales on every mesh.
class Fp8Weights {
 public:
  Fp8Weights(const tensor::Exec& exec, const WeightFormat& format, const std::vector<UnitSpec>& units,
             const fsdp::UnitBuffers& buffers, fp8::ScalingState& state);

  /// Sets scales and stored shards from the initial masters. The ranks of `model_group` hold every parameter once.
  void initialise(const comm::Communicator& model_group);

  /// What the optimizer writes of an updated weight in the same pass: its amax (delayed, current) and its stored FP8
  /// shard (delayed).
  kernels::Outputs update_outputs(int unit, int parameter) const;
  /// After the optimizer: reduces the amaxes of all weights at once (current).
  void reduce_amaxes(const comm::Communicator& model_group) const;
  /// After that: sets the scales of the weights, and casts the stored shards.
  void after_update();

  fsdp::GatherHooks hooks() const;
  /// What products read of a gathered unit: one entry a parameter, written to the beginning of `weights`. Throws
  /// Error(failed) if `weights` is too short.
  std::span<const Weight> bind(std::span<Weight> weights, int unit, const fsdp::GatheredUnit& gathered) const;

 private:
  fp8::Site site(int unit, int parameter) const;
  void store_all(bool rewritten) const;
  /// Casts `source` to `out`, padding rows included. `rewritten`: `out` holds this weight of the step before, so that
  /// changes of block scales are counted.
  void quantize(const fp8::Site& site, const fsdp::CopyTensors& out, const tensor::Tensor& source,
                bool rewritten) const;
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

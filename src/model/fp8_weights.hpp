// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "fp8/scaling_state.hpp"
#include "fsdp/weight_store.hpp"
#include "model/parameters.hpp"
#include "model/products.hpp"

namespace shard8::model {

/// The casts of all weights on their way from the optimizer to the products (fsdp/weight_forms.hpp lists the forms): of
/// masters to stored FP8 shards, and before and after a gather. A weight that is not in FP8 is only cast from the dtype
/// of its master to the communication dtype and from there to the compute dtype.
///
/// An FP8 weight is the cast of bf16(master). The weight's scale is that of the whole fused weight, for experts that of
/// one expert's weight, or those of its blocks, so that equal masters give equal bytes and scales on every mesh.
class Fp8Weights {
 public:
  /// `executor`, `buffers` and `state` must outlive the object.
  Fp8Weights(operation::Executor& executor, const WeightFormat& format, const std::vector<UnitSpec>& units,
             const fsdp::UnitBuffers& buffers, fp8::ScalingState& state);

  /// Sets the weights' scales and writes the stored shards from the initial masters, which must be filled. `state` must
  /// have been prepared (ScalingState::prepare). The ranks of `model_group` hold every parameter once. Collective over
  /// this group with recipes delayed and current. Does nothing without a recipe.
  void initialise(const comm::Communicator& model_group);

  /// What the optimizer's kernel writes in addition to master and moments: a weight's amax with recipes delayed
  /// and current, and with delayed also its stored FP8 shard, if there is one, both of a part of the shard
  /// (fsdp::WeightForms::groups). Empty for all other parameters.
  kernels::Outputs update_outputs(int unit, int parameter, const fsdp::GroupRows& part) const;
  /// With recipe current: reduces the amaxes of all weights over `model_group`, in one collective. With other recipes
  /// the call does nothing. To be called once all units are updated.
  void reduce_amaxes(const comm::Communicator& model_group) const;
  /// Sets the scales of the weights (current) and casts the stored shards (current, block, mxfp8). With delayed the
  /// function only counts the casts: the optimizer has made them, and ScalingState::update sets the scales. To be
  /// called after reduce_amaxes().
  void after_update();

  /// Adds the squares of the weights that are kept in FP8 and that this rank counts (fsdp::UnitBuffers::counts), as
  /// their bytes and inverse scales say: those of unit u to the exact sum in row u of `totals` (units,
  /// kernels::kExactTotalBytes) u8. A weight with a copy for each pass counts with both.
  void add_squares(const tensor::Tensor& totals) const;

  /// The casts before and after a gather, for fsdp::WeightStore. The hooks refer to this object, which must outlive
  /// them.
  fsdp::GatherHooks hooks() const;

 private:
  fp8::Site site(int unit, int parameter) const;
  void store_all(bool rewritten) const;
  /// Casts `source` to `out`, padding rows included. `rewritten`: `out` still holds the cast of the step before, so
  /// block scales that change are counted.
  /// `parts`: the rows of each matrix in `source`.
  void quantize(const fp8::Site& site, const fsdp::Copies& out, const tensor::Tensor& source,
                std::span<const fsdp::GroupRows> parts, bool rewritten) const;
  template <class F>
  void for_each_weight(const F& f) const;

  operation::Executor& executor_;
  WeightFormat format_;
  std::vector<std::vector<fp8::Site>> sites_;
  /// By unit, then by parameter: the parts of the whole parameter, not of a shard.
  std::vector<std::vector<std::vector<fsdp::GroupRows>>> whole_;
  const fsdp::UnitBuffers& buffers_;
  fp8::ScalingState& state_;
};

}  // namespace shard8::model

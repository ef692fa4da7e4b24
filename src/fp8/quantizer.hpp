// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/communicator.hpp"
#include "fp8/scaling_state.hpp"
#include "profile/step_timer.hpp"

namespace shard8::fp8 {

/// A matrix as the products of a linear read it: `by_rows` for products that sum along its rows, `by_columns` for
/// products that sum along its columns. The two are the same matrix if it is plain or if one scaling serves both;
/// with Recipe::transposed `by_columns` holds the same bytes transposed.
struct Operands {
  tensor::Operand by_rows, by_columns;

  Operands() = default;
  Operands(const tensor::Tensor& plain) : by_rows(plain), by_columns(plain) {}  // NOLINT: plain serves both
  explicit Operands(const tensor::Operand& both) : by_rows(both), by_columns(both) {}
  Operands(const tensor::Operand& rows, const tensor::Operand& columns) : by_rows(rows), by_columns(columns) {}
  bool one() const { return by_rows.data.data == by_columns.data.data; }
  /// The transposed bytes; empty if there are none.
  tensor::Tensor transposed() const { return by_columns.transposed ? by_columns.data : tensor::Tensor{}; }
};

/// Casts inputs and output gradients of linears to FP8 by the recipe, with the scales of the scaling state.
class Quantizer {
 public:
  Quantizer(ScalingState& state, const tensor::Exec& exec, const comm::Communicator& tensor_group,
            profile::StepTimer& timer)
      : state_(state), exec_(exec), tensor_group_(tensor_group), timer_(timer) {}

  const Recipe& recipe() const { return state_.recipe(); }

  /// Whose tokens a matrix has. `part`: this rank's part; the tensor group gathers the parts, so they share one
  /// scale. `all`: the tokens of the whole tensor group.
  enum class Tokens : std::uint8_t { part, all };

  /// Which passes read a cast. Of a recipe with two copies, only the copies that these passes read are written.
  /// `recomputed`: backward reads it, and forward has cast the same numbers before. So a recipe with one scale a matrix
  /// takes the same scale, and the cast is not counted a second time.
  enum class Purpose : std::uint8_t { both_passes, forward_pass, recomputed };

  /// Writes to `out` the cast of what `produce(const kernels::Outputs&)` computes. The producing kernel casts, too,
  /// if the scale is known before it runs. Otherwise it writes `plain` (rows, cols), in the compute dtype, which is
  /// then cast. `plain` is always written if keep_plain is set.
  template <class Producer>
  void produce_and_cast(const Site& site, const Operands& out, const tensor::Tensor& plain, bool keep_plain,
                        Tokens tokens, const Producer& produce, Purpose purpose = Purpose::both_passes) const {
    const bool recomputed = purpose == Purpose::recomputed;
    const bool at_once = recipe().per_tensor() && (recomputed || !state_.scaled_by_own_amax(site));
    kernels::Outputs outputs(plain);
    if (recomputed && at_once) {
      outputs = recomputed_outputs(site, out);
    } else if (recipe().per_tensor()) {
      outputs.amax = state_.amax(site);
      if (at_once) {
        if (!keep_plain) outputs.plain = {};
        outputs.quantized = out.by_rows;
        if (purpose != Purpose::forward_pass) outputs.transposed = out.transposed();
        outputs.scale = state_.scale(site);
        outputs.counts = state_.counts(site);
      }
    }
    {
      auto part = timer_.part(profile::Part::elementwise);
      produce(outputs);
    }
    if (!at_once)
      cast_known(site, out, plain, tokens, purpose);
    else if (!recomputed)
      state_.count_elements(site, out.by_rows.data.count());
  }

  /// What a kernel writes for Purpose::recomputed. Recipes with one scale a matrix only.
  kernels::Outputs recomputed_outputs(const Site& site, const Operands& out) const;

  /// Writes the cast of x to `out`.
  void cast(const Site& site, const Operands& out, const tensor::Tensor& x, Tokens tokens,
            Purpose purpose = Purpose::both_passes) const;

 private:
  /// Casts x, whose amax has been found if the recipe needs it.
  void cast_known(const Site& site, const Operands& out, const tensor::Tensor& x, Tokens tokens, Purpose purpose) const;
  /// Casts x with block scales.
  void cast_blocks(const Site& site, const Operands& out, const tensor::Tensor& x, Purpose purpose) const;

  ScalingState& state_;
  const tensor::Exec& exec_;
  const comm::Communicator& tensor_group_;
  profile::StepTimer& timer_;
};

}  // namespace shard8::fp8

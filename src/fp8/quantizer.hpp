// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/communicator.hpp"
#include "fp8/scaling_state.hpp"
#include "profile/step_timer.hpp"

namespace shard8::fp8 {

/// A matrix as the products of a linear read it: summed over along its rows, and along its columns.
/// One and the same where one scaling serves both, or where it is plain; or by columns the same bytes
/// transposed (Recipe::transposed).
struct Operands {
  tensor::Operand by_rows, by_columns;

  Operands() = default;
  Operands(const tensor::Tensor& plain) : by_rows(plain), by_columns(plain) {}  // NOLINT: plain serves both
  explicit Operands(const tensor::Operand& both) : by_rows(both), by_columns(both) {}
  Operands(const tensor::Operand& rows, const tensor::Operand& columns) : by_rows(rows), by_columns(columns) {}
  bool one() const { return by_rows.data.data == by_columns.data.data; }
  /// The transposed bytes, or nothing.
  tensor::Tensor transposed() const { return by_columns.transposed ? by_columns.data : tensor::Tensor{}; }
};

/// Casts inputs and output gradients of linears as the recipe says, with the state's scales.
class Quantizer {
 public:
  Quantizer(ScalingState& state, const tensor::Exec& exec, const comm::Communicator& tensor_group,
            profile::StepTimer& timer)
      : state_(state), exec_(exec), tensor_group_(tensor_group), timer_(timer) {}

  const Recipe& recipe() const { return state_.recipe(); }

  /// Whose tokens a matrix has: this rank's part of the tensor group's, which are gathered and so
  /// share one scale, or all.
  enum class Tokens : std::uint8_t { part, all };

  /// What a cast is made for: a copy that only the other pass reads is left out where it is another.
  /// again_for_backward: as one before for forward, of the same numbers and so with its scale, if one is
  /// of all; such a cast is not counted again.
  enum class Made : std::uint8_t { for_both, for_forward, again_for_backward };

  /// out = the cast of what `produce(const kernels::Outputs&)` makes, in one pass where the scale is
  /// known before. `plain` (rows, cols) in the compute dtype is where it is written first otherwise,
  /// and always with keep_plain.
  template <class Producer>
  void make(const Site& site, const Operands& out, const tensor::Tensor& plain, bool keep_plain, Tokens tokens,
            const Producer& produce, Made made = Made::for_both) const {
    const bool again = made == Made::again_for_backward;
    const bool at_once = recipe().per_tensor() && (again || !state_.scaled_by_itself(site));
    kernels::Outputs outputs(plain);
    if (again && at_once) {
      outputs = outputs_again(site, out);
    } else if (recipe().per_tensor()) {
      outputs.amax = state_.amax(site);
      if (at_once) {
        if (!keep_plain) outputs.plain = {};
        outputs.quantized = out.by_rows;
        if (made != Made::for_forward) outputs.transposed = out.transposed();
        outputs.scale = state_.scale(site);
        outputs.counts = state_.counts(site);
      }
    }
    {
      auto part = timer_.part(profile::Part::elementwise);
      produce(outputs);
    }
    if (!at_once)
      cast_known(site, out, plain, tokens, made);
    else if (!again)
      state_.count_elements(site, out.by_rows.data.count());
  }

  /// What Made::again_for_backward asks of a kernel, where one scale is of all.
  kernels::Outputs outputs_again(const Site& site, const Operands& out) const;

  /// out = the cast of x.
  void cast(const Site& site, const Operands& out, const tensor::Tensor& x, Tokens tokens,
            Made made = Made::for_both) const;

 private:
  /// The same when the amax of x, if it is needed, has been found.
  void cast_known(const Site& site, const Operands& out, const tensor::Tensor& x, Tokens tokens, Made made) const;
  /// Block scales.
  void cast_blocks(const Site& site, const Operands& out, const tensor::Tensor& x, Made made) const;

  ScalingState& state_;
  const tensor::Exec& exec_;
  const comm::Communicator& tensor_group_;
  profile::StepTimer& timer_;
};

}  // namespace shard8::fp8

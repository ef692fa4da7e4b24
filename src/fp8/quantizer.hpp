// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/communicator.hpp"
#include "fp8/scaling_state.hpp"
#include "operation/executor.hpp"
#include "tensor/arena.hpp"
#include "tensor/operand.hpp"

namespace shard8::fp8 {

/// A matrix (R, C) as the products of a linear layer read it. Products that sum over C, along rows, read `rowwise`.
/// Products that sum over R, along columns, read `columnwise`. The two are the same operand if the matrix is plain, or
/// if one scaling serves both. With Recipe::transposed() `columnwise` is stored transposed; with one scale a matrix
/// `columnwise` holds the bytes of `rowwise`, transposed.
struct Operands {
  tensor::Operand rowwise, columnwise;

  Operands() = default;
  Operands(const tensor::Tensor& plain) : rowwise(plain), columnwise(plain) {}  // NOLINT: plain serves both
  explicit Operands(const tensor::Operand& both) : rowwise(both), columnwise(both) {}
  Operands(const tensor::Operand& rows, const tensor::Operand& columns) : rowwise(rows), columnwise(columns) {}
  /// Whether rowwise and columnwise are the same memory.
  bool one() const { return rowwise.data.data == columnwise.data.data; }
  /// The transposed bytes (C, R); empty if the matrix has none.
  tensor::Tensor transposed() const { return columnwise.transposed ? columnwise.data : tensor::Tensor{}; }
};

/// Memory for an FP8 matrix: bytes for its values and bytes for its inverse scales. One buffer may hold matrices of
/// different shapes, formats and scalings, one after the other. The buffer does not know which matrix it holds: the
/// view that a caller requests says so.
class CastBuffer {
 public:
  CastBuffer() = default;
  /// Takes memory from `arena` for matrices of up to `elements` elements with `scaling`.
  CastBuffer(tensor::Arena& arena, std::int64_t elements, tensor::Scaling scaling);

  bool empty() const { return values_.bytes() == 0; }
  /// The bytes of the values.
  const tensor::Tensor& memory() const { return values_; }
  /// Bytes of the values and of the inverse scales.
  std::size_t bytes() const { return values_.bytes() + scales_.bytes(); }

  /// The memory as a matrix (rows, cols). Throws Error(failed) if the matrix does not fit, or if rows and cols are not
  /// whole blocks of `scaling`.
  tensor::Operand view(std::int64_t rows, std::int64_t cols, tensor::DType dtype, tensor::Scaling scaling) const;
  /// As view(), for a matrix (rows, cols) that is stored transposed, as (cols, rows).
  tensor::Operand view_transposed(std::int64_t rows, std::int64_t cols, tensor::DType dtype,
                                  tensor::Scaling scaling) const;

 private:
  tensor::Tensor values_{nullptr, {0}, tensor::DType::u8}, scales_{nullptr, {0}, tensor::DType::u8};
};

/// Casts inputs and output gradients of linear layers to FP8, by the recipe and with the scales of the scaling state.
/// While a ScalingState::Unrecorded lives, forward runs without a backward behind it, so Purpose::both_passes is taken
/// as Purpose::forward_pass: copies that only backward reads are not written.
/// Takes references: the arguments of the constructor must outlive the quantizer.
class Quantizer {
 public:
  /// `expert_group`: null unless matrices of Tokens::dispatched are cast in a group of several ranks.
  Quantizer(ScalingState& state, operation::Executor& executor, const comm::Communicator& tensor_group,
            const comm::Communicator* expert_group = nullptr)
      : state_(state), executor_(executor), tensor_group_(tensor_group), expert_group_(expert_group) {}

  const Recipe& recipe() const { return state_.recipe(); }

  /// Whose tokens a matrix has. `part`: this rank's part of the tokens; the tensor group will gather the parts, so all
  /// parts must have one scale, from an amax reduced over the group. `all`: the tokens of the whole tensor group.
  /// `dispatched`: this rank's tokens, which it sends to other ranks of the expert group; the parts of all ranks of
  /// this group must have one scale likewise.
  enum class Tokens : std::uint8_t { part, all, dispatched };

  /// Which passes read a cast. If the recipe has two copies of the matrix, only the copies that these passes read are
  /// written. `both_passes`: forward and backward. `forward_pass`: forward alone. `recomputed`: backward alone, and
  /// forward has cast the same numbers before. A recipe with one scale a matrix then uses the scale of forward's cast,
  /// and the cast is not counted a second time.
  enum class Purpose : std::uint8_t { both_passes, forward_pass, recomputed };

  /// Runs produce(const kernels::Outputs&), which issues the kernel that computes a matrix (rows, cols), and writes the
  /// cast of the matrix to `out`. If the scale is known before, the producing kernel casts in the same pass; on a
  /// device also with blocks of 128, unless keep_plain is set. Otherwise the kernel writes `plain` (rows, cols), in the
  /// compute dtype, and `plain` is cast afterwards. If keep_plain is set, `plain` holds the matrix afterwards, but not
  /// with Purpose::recomputed and one scale a matrix: then only the cast is written. With Tokens::part or dispatched
  /// and a scale of the matrix' own amax, all ranks of the tensor or the expert group must call together.
  template <class Producer>
  void produce_and_cast(const Site& site, const Operands& out, const tensor::Tensor& plain, bool keep_plain,
                        Tokens tokens, const Producer& produce, Purpose purpose = Purpose::both_passes) const {
    purpose = needed(purpose);
    const bool recomputed = purpose == Purpose::recomputed;
    if (recipe().blocks_at_once() && !keep_plain) return produce(block_outputs(site, out, plain, purpose));
    const bool at_once = recipe().per_tensor() && (recomputed || !state_.scaled_by_own_amax(site));
    kernels::Outputs outputs(plain);
    if (recomputed && at_once) {
      outputs = recomputed_outputs(site, out, plain);
    } else if (recipe().per_tensor()) {
      outputs.amax = state_.amax(site);
      if (at_once) {
        if (!keep_plain) outputs.plain = {};
        outputs.quantized = out.rowwise;
        if (purpose != Purpose::forward_pass) outputs.transposed = out.transposed();
        outputs.scale = state_.scale(site);
        outputs.counts = state_.counts(site);
      }
    }
    produce(outputs);
    if (!at_once)
      cast_known(site, out, plain, tokens, purpose);
    else if (!recomputed)
      state_.count_elements(site, out.rowwise.data.count());
  }

  /// Whether a kernel can write what recomputed_outputs() requests: the scale is known, or one kernel computes a matrix
  /// and casts it in blocks.
  bool recomputes_at_once() const { return recipe().per_tensor() || recipe().blocks_at_once(); }
  /// The Outputs that a kernel must write for Purpose::recomputed: the cast, or its transposed form alone if there is
  /// one; with block scales the columnwise cast, which is counted, and for which `plain` is scratch. Error(failed)
  /// unless recomputes_at_once().
  kernels::Outputs recomputed_outputs(const Site& site, const Operands& out, const tensor::Tensor& plain) const;

  /// Writes the cast of x (rows, cols) to `out`. `end`, unless empty: how many rows are cast, see kernels::CastOptions.
  /// Ranks must call together in the same case as for produce_and_cast().
  void cast(const Site& site, const Operands& out, const tensor::Tensor& x, Tokens tokens,
            Purpose purpose = Purpose::both_passes, const tensor::Tensor& end = {}) const;

 private:
  Purpose needed(Purpose purpose) const {
    return purpose == Purpose::both_passes && !state_.recording() ? Purpose::forward_pass : purpose;
  }
  /// Reduces the amax of the site over a group of ranks that have parts of the matrix.
  void reduce_amax(const Site& site, const comm::Communicator& group, operation::Group axes) const;
  /// Casts x. If the recipe needs the amax of x, kernels have raised the amax of the site before.
  void cast_known(const Site& site, const Operands& out, const tensor::Tensor& x, Tokens tokens, Purpose purpose,
                  const tensor::Tensor& end = {}) const;
  /// The Outputs of a kernel that computes a matrix and casts it in blocks of 128. Counts the elements of the casts.
  kernels::Outputs block_outputs(const Site& site, const Operands& out, const tensor::Tensor& plain,
                                 Purpose purpose) const;
  /// Casts x with block scales.
  void cast_blocks(const Site& site, const Operands& out, const tensor::Tensor& x, Purpose purpose,
                   const tensor::Tensor& end) const;
  /// The options of a cast of the site that is counted.
  kernels::CastOptions counted(const Site& site, const tensor::Tensor& end) const;
  /// Counts the elements of a cast that writes `copies` copies of x, unless the kernel counts them.
  void count(const Site& site, const tensor::Tensor& x, const tensor::Tensor& end, std::int64_t copies = 1) const;

  /// Casts x with one scale. With `both` the transposed bytes are written in the same pass, if `out` has them.
  void quantize(const Site& site, const Operands& out, const tensor::Tensor& amax, const tensor::Tensor& x,
                const kernels::CastOptions& options, bool both) const;

  ScalingState& state_;
  operation::Executor& executor_;
  const comm::Communicator& tensor_group_;
  const comm::Communicator* expert_group_;
};

}  // namespace shard8::fp8

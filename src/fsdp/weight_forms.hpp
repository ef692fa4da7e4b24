// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/axes.hpp"
#include "tensor/arena.hpp"
#include "tensor/operand.hpp"

// The forms in which a rank has a parameter of the model. R rows of C columns are sharded over D ranks: S rows on each,
// so D·S rows with padding. A slot is memory that units use one after the other (fsdp/unit_buffers.hpp).
//
//   form          rows  dtype                       memory               its values hold
//   master        S     fp32, or bf16 of a split    arena weights        all the run; the optimizer updates it
//   remainder     S     i16 of a split master       arena weights        as master
//   stored        S     Formats that products read  arena weights        until the master is updated, then cast anew
//   communicated  D·S   Options::gather, or as      slot of gathers      from the gather's start until another gather
//                       products read it                                 takes the slot or a step begins: CopyStamp
//   read          R     Formats that products read  slot of gathers      from the gather's end, as long as communicated
//   whole         D·S   fp32                        slot of gradients    first backward until the unit is reduced
//   sent          D·S   Options::reduce             slot of gradients    while the unit is reduced
//   received      S     Options::reduce             slot of gradients    while the unit is reduced, until it is added
//   gradient      S     fp32                        arena gradients, or  until the next step's first backward; in lent
//                                                   lent (UnitBuffers)   memory until the next step
//
// Forms that would have equal bytes are one tensor. `read` is the first R rows of `communicated`, unless the parameter
// is converted after the gather. On one shard `communicated` is the master or the stored shard if products read these,
// and `whole` is the gradient. With gradients reduced in fp32 `sent` is `whole`, and `received` is `gradient` unless
// several reductions of a step are summed (Options::reduces_each).
//
// A matrix in FP8 also has inverse scales. The inverse scales of blocks lie behind the elements, in the same memory,
// and are gathered with them. A scale of a whole matrix is not sharded: it lies in fp8::ScalingState, and all forms
// refer to it. A parameter may be several matrices of equal shape, one below the other (ParameterShape::groups), each
// with a scale of its own. The transposed copy that products on devices read is none of these forms: a linear makes it
// in its own scratch.

namespace shard8::fsdp {

enum class Pass : std::uint8_t { forward, backward };

/// One use of a unit in a step, from acquire to release.
struct Visit {
  int unit = 0;
  Pass pass = Pass::forward;
};

/// How a matrix is kept: the dtype of its elements, and which of them share an inverse scale.
struct Format {
  tensor::DType dtype = tensor::DType::fp32;
  tensor::Scaling scaling = tensor::Scaling::none;
  bool operator==(const Format&) const = default;
};

/// What each pass reads of a parameter. Equal formats: one copy serves both passes. Otherwise each pass has its own.
struct Formats {
  Format forward, backward;
  bool two() const { return forward != backward; }
  bool operator==(const Formats&) const = default;
};

/// The copies of a parameter. One copy for both passes is the same operand twice. If each pass has a copy, the copy
/// that was not allocated or gathered is empty.
struct Copies {
  tensor::Operand forward, backward;

  bool empty() const { return forward.empty() && backward.empty(); }
  /// Whether both passes have a copy, in different memory.
  bool two() const { return !forward.empty() && !backward.empty() && forward.data.data != backward.data.data; }
  /// Calls f(tensor) for the elements of each copy and for its inverse scales, if they are those of blocks.
  template <class F>
  void for_each_tensor(const F& f) const {
    const auto visit = [&](const tensor::Operand& copy) {
      if (copy.empty()) return;
      f(copy.data);
      if (copy.scaling != tensor::Scaling::none && copy.scaling != tensor::Scaling::tensor) f(copy.scale_inv);
    };
    visit(forward);
    if (forward.empty() || two()) visit(backward);
  }
};

/// Tells whether a gathered copy still has the bytes that a gather brought: no later gather into its slot has started
/// and no step has begun.
struct CopyStamp {
  const std::uint64_t* generation = nullptr;  ///< of the slot now
  std::uint64_t at_gather = 0;
  bool current() const { return generation != nullptr && *generation == at_gather; }
};

/// A gathered parameter (R, C), or (R) for a vector, as kernels read it: forward reads `forward`, backward reads
/// `backward`. A gathered weight may be read while its stamp is current.
struct GatheredWeight : Copies {
  CopyStamp stamp;

  GatheredWeight() = default;
  GatheredWeight(const tensor::Tensor& plain) : Copies{plain, plain} {}  // NOLINT: plain serves both
  GatheredWeight(const tensor::Operand& rowwise, const tensor::Operand& columnwise, const CopyStamp& gathered)
      : Copies{rowwise, columnwise}, stamp(gathered) {}
  /// The tensor of a parameter that is never in FP8: a norm, a bias, a table.
  const tensor::Tensor& plain() const { return forward.data; }
  /// The copy for a pass. Throws Error(failed) if it was not gathered for this pass in this step. A weight without a
  /// stamp was never gathered and may always be read.
  const tensor::Operand& copy_for(Pass pass) const;
};

/// When the master is cast to the formats that products read.
enum class Cast : std::uint8_t {
  after_gather,   ///< a gather transfers plain rows in Options::gather; what arrives is cast
  before_gather,  ///< each gather transfers the cast
  stored,         ///< as before_gather, but the cast is kept as a shard until the master is updated
};

/// One parameter of a unit: the part (rows, cols) with which this rank computes. The rows of the part are sharded.
struct ParameterShape {
  std::string name;
  std::int64_t rows = 0, cols = 1;
  std::int64_t granularity = 1;  ///< rows_per_shard is a multiple of it
  /// The first gradient of a step overwrites the gradient buffer (a GEMM), so the buffer is not cleared.
  bool gradient_overwritten = false;
  bool vector = false;               ///< gathered and updated as one dimension; cols is 1
  std::optional<Formats> formats{};  ///< what products read; nothing: plain rows in Options::compute
  Cast cast = Cast::after_gather;
  std::int64_t groups = 1;     ///< matrices (rows / groups, cols), one below the other: those of experts
  tensor::Tensor scale_inv{};  ///< (groups) fp32, the inverse scales of all copies with Scaling::tensor
  base::Sharing sharing{};
};

/// Parameters that are gathered at once and whose gradients are reduced at once: all have the same Sharing::sharded and
/// Sharing::summed().
struct UnitShape {
  std::string name;
  std::vector<ParameterShape> parameters;
  /// A layer: used in forward and in backward of each micro-batch. The gradient of a layer is summed in backward.
  bool rotating = false;
  /// A unit that is no layer. Such a unit is used once in a micro-batch, and its gradient is summed once: the
  /// embedding, and the root unless the table is tied. Both the embedding and the head use a tied table.
  bool single_use = false;
  /// Whether backward reads the copies of both passes, because it recomputes: the experts of a layer.
  bool backward_reads_both = false;

  base::Sharing sharing() const { return parameters.empty() ? base::Sharing{} : parameters.front().sharing; }
};

struct Options {
  base::Place place{};                          ///< of this rank
  int prefetch = 1;                             ///< how many of the next visits are gathered ahead
  bool reshard_after_forward = true;            ///< false: every unit has a slot of its own and stays gathered
  bool accumulate = false;                      ///< a step has several micro-batches
  tensor::DType compute = tensor::DType::fp32;  ///< of weights that kernels read
  tensor::DType gather = tensor::DType::fp32;   ///< of weights that a gather transfers
  tensor::DType reduce = tensor::DType::fp32;   ///< of gradients that a reduction transfers
  /// Master shards are bf16 weights and 16-bit remainders, in place of fp32.
  bool master_remainder = false;
  /// Whether the gradients of each of several micro-batches are reduced, and summed in the gradient shards. Otherwise
  /// every unit keeps its unsharded gradients until those of the last micro-batch are added.
  bool sharded_sums = false;

  /// Whether a unit with this sharing is reduced in each of several micro-batches. With one shard its gradients are
  /// summed in the gradient shards anyway.
  bool reduces_each(const base::Sharing& sharing) const {
    return accumulate && sharded_sums && place.mesh().ranks(sharing.sharded) > 1;
  }
  tensor::DType master() const { return master_remainder ? tensor::DType::bf16 : tensor::DType::fp32; }
};

/// How R rows are sharded over D ranks: each rank has rows_per_shard = roundup(ceil(R/D), granularity) rows. The last
/// ranks may own fewer rows or none; the rest of their shards is padding.
struct ShardLayout {
  std::int64_t rows = 0, rows_per_shard = 0;
  int shards = 1;

  static ShardLayout make(std::int64_t rows, int shards, std::int64_t granularity = 1);
  std::int64_t padded_rows() const { return rows_per_shard * shards; }
  std::int64_t first_row(int rank) const { return rank * rows_per_shard; }
  /// The rows of a rank's shard that are not padding.
  std::int64_t owned_rows(int rank) const;
};

/// Where a gather finds this rank's rows of the copies that it transfers.
enum class Source : std::uint8_t {
  hook,      ///< GatherHooks::before writes them into the slot
  stored,    ///< in the stored shard, from which the gather copies them
  in_place,  ///< one shard: nothing is transferred, the master or the stored shard is read where it lies
};

/// Rows [first, first + rows) of a shard, which are rows of one matrix of a parameter (ParameterShape::groups).
struct GroupRows {
  std::int64_t group = 0, first = 0, rows = 0;
};

/// One parameter: what its forms are, and those that this rank keeps from step to step. What every step reads of every
/// parameter comes first, so that it lies in few cache lines.
struct WeightForms {
  std::int64_t cols = 1;
  ShardLayout layout;
  int shard = 0;  ///< this rank's number among the D ranks
  bool vector = false;
  Source source = Source::hook;
  base::Sharing sharing{};
  Formats communicated, read;       ///< of the forms `communicated` and `read`
  tensor::Tensor master, gradient;  ///< (S, C); the gradient is fp32, and UnitBuffers allocates it
  tensor::Tensor remainder;         ///< (S, C); empty without Options::master_remainder
  tensor::Tensor scale_inv;         ///< ParameterShape::scale_inv
  Copies stored;                    ///< (S, C); empty unless Cast::stored
  /// The parts of the shard by matrix: all S rows if the parameter is one matrix. Padding rows belong to the last part.
  std::vector<GroupRows> groups;

  /// Takes memory for master, remainder and stored shard from `weights`. Throws Error(failed) if the rows or the shards
  /// of the parameter are not whole blocks of its formats (with the arithmetic).
  static WeightForms make(const ParameterShape& parameter, const Options& options, tensor::Arena& weights);

  /// Whether gathered values are cast to the format that products read (GatherHooks::after).
  bool converted() const { return communicated != read; }
  /// Rows of one matrix in a copy of the shard or of the whole parameter, with the inverse scale of the matrix.
  static tensor::Operand part_of(const tensor::Operand& copy, const GroupRows& part);
  /// Whether the parameter needs memory in a slot of gathers. If not, kernels read the shards.
  bool gathers() const { return source != Source::in_place || converted(); }
  std::int64_t first_row() const { return layout.first_row(shard); }
  std::int64_t owned_rows() const { return layout.owned_rows(shard); }
  /// (rows, C) in every dtype and without scales of blocks: a tensor of the forms of gradients.
  tensor::Tensor allocate(std::int64_t rows, tensor::DType dtype, tensor::Arena& arena) const;
};

/// Rows [first, first + rows) of each copy. The rows must be whole blocks.
Copies slice(const Copies& copies, std::int64_t first, std::int64_t rows);

/// One gathered copy of a unit in a slot: the forms `communicated` and `read` of its parameters. `only` is the pass
/// whose copies it has; nothing: the copies of both passes.
struct GatheredCopy {
  std::vector<Copies> communicated;  ///< by parameter; on one shard possibly the shards themselves
  std::vector<GatheredWeight> read;  ///< by parameter
  std::vector<tensor::Tensor>
      transferred;  ///< the tensors of `communicated` that one all-gather transfers; none on one shard
  /// For each of `transferred` its stored shard. Empty tensor: the hook writes this rank's rows into the slot.
  std::vector<tensor::Tensor> own;

  /// Takes memory for what the shards do not hold from `slot`.
  static GatheredCopy make(const std::vector<WeightForms>& unit, std::optional<Pass> only, tensor::Arena& slot);
};

/// The gradients of a unit in a slot, by parameter: the forms `whole`, `sent` and `received`.
struct GradientForms {
  std::vector<tensor::Tensor> whole, sent, received;

  /// How the unit is reduced.
  struct Reduction {
    bool staged = false;  ///< in `dtype`, not in fp32
    bool summed = false;  ///< several times in a step: what later reductions bring is added to the gradient shards
    tensor::DType dtype = tensor::DType::fp32;
  };
  /// Takes memory for what is not the gradient shard itself from `slot`.
  static GradientForms make(const std::vector<WeightForms>& unit, const Reduction& reduction, tensor::Arena& slot);
};

}  // namespace shard8::fsdp

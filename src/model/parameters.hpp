// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "deck/config.hpp"
#include "fp8/scaling_state.hpp"
#include "fsdp/unit_buffers.hpp"
#include "fsdp/weight_forms.hpp"
#include "io/box.hpp"
#include "io/tensor_file.hpp"
#include "tensor/runtime.hpp"

namespace shard8::model {

/// What a parameter is in its unit. Matrices are (out, in).
enum class Parameter : std::uint8_t {
  table,      ///< embedding unit: rows of the vocabulary; a tied table is the root's head
  positions,  ///< embedding unit, gpt2
  norm1_weight,
  norm1_bias,
  qkv_weight,
  qkv_bias,
  q_norm_weight,  ///< (head_dim): norm of queries, which all query heads share
  k_norm_weight,  ///< (head_dim): norm of keys, which all key heads share
  proj_weight,
  proj_bias,
  norm2_weight,
  norm2_bias,
  fc1_weight,
  fc1_bias,
  fc2_weight,
  fc2_bias,
  router,       ///< (experts, hidden), of a layer with experts
  experts_fc1,  ///< unit of experts: [gate; up] (2·F, hidden) of each expert, one below the other
  experts_fc2,  ///< unit of experts: (hidden, F) of each expert, one below the other
  norm_weight,  ///< root unit: the final norm
  norm_bias,
  head,  ///< root unit: rows of the vocabulary
};

namespace parameter_order {
inline constexpr std::array kTable{Parameter::table};
inline constexpr std::array kPositions{Parameter::positions};
inline constexpr std::array kTableAndPositions{Parameter::table, Parameter::positions};
inline constexpr std::array kLlamaLayer{Parameter::norm1_weight, Parameter::qkv_weight, Parameter::proj_weight,
                                        Parameter::norm2_weight, Parameter::fc1_weight, Parameter::fc2_weight};
inline constexpr std::array kQkNormLayer{Parameter::norm1_weight,  Parameter::qkv_weight,  Parameter::q_norm_weight,
                                         Parameter::k_norm_weight, Parameter::proj_weight, Parameter::norm2_weight,
                                         Parameter::fc1_weight,    Parameter::fc2_weight};
inline constexpr std::array kRoutedLayer{Parameter::norm1_weight, Parameter::qkv_weight, Parameter::proj_weight,
                                         Parameter::norm2_weight, Parameter::router};
inline constexpr std::array kQkNormRoutedLayer{
    Parameter::norm1_weight, Parameter::qkv_weight,   Parameter::q_norm_weight, Parameter::k_norm_weight,
    Parameter::proj_weight,  Parameter::norm2_weight, Parameter::router};
inline constexpr std::array kExperts{Parameter::experts_fc1, Parameter::experts_fc2};
inline constexpr std::array kGpt2Layer{Parameter::norm1_weight, Parameter::norm1_bias,  Parameter::qkv_weight,
                                       Parameter::qkv_bias,     Parameter::proj_weight, Parameter::proj_bias,
                                       Parameter::norm2_weight, Parameter::norm2_bias,  Parameter::fc1_weight,
                                       Parameter::fc1_bias,     Parameter::fc2_weight,  Parameter::fc2_bias};
inline constexpr std::array kLlamaRoot{Parameter::norm_weight, Parameter::head};
inline constexpr std::array kGpt2Root{Parameter::norm_weight, Parameter::norm_bias, Parameter::head};
}  // namespace parameter_order

/// The parameters of each kind of unit, in the order in which the unit keeps them.
constexpr std::span<const Parameter> embedding_parameters(const deck::ModelConfig& model) {
  const bool gpt2 = model.arch == deck::Arch::gpt2;
  if (model.tie_embeddings)
    return gpt2 ? std::span<const Parameter>(parameter_order::kPositions) : std::span<const Parameter>();
  return gpt2 ? std::span<const Parameter>(parameter_order::kTableAndPositions)
              : std::span<const Parameter>(parameter_order::kTable);
}
/// The parameters of a layer but for its experts, which are a unit of their own. `experts`: whether the layer has
/// experts.
constexpr std::span<const Parameter> layer_parameters(const deck::ModelConfig& model, bool experts = false) {
  if (model.arch == deck::Arch::gpt2) return parameter_order::kGpt2Layer;
  if (experts && model.qk_norm) return parameter_order::kQkNormRoutedLayer;
  if (experts) return parameter_order::kRoutedLayer;
  if (model.qk_norm) return parameter_order::kQkNormLayer;
  return parameter_order::kLlamaLayer;
}
constexpr std::span<const Parameter> root_parameters(deck::Arch arch) {
  return arch == deck::Arch::gpt2 ? std::span<const Parameter>(parameter_order::kGpt2Root)
                                  : std::span<const Parameter>(parameter_order::kLlamaRoot);
}

/// Finds the entry of a parameter in a list with one entry for each parameter of a unit: its weights or gradients. Both
/// spans must outlive the object.
template <class T>
class ByParameter {
 public:
  /// Throws Error(failed) unless there is one entry for each parameter in `order`.
  ByParameter(std::span<const Parameter> order, std::span<const T> entries) : order_(order), entries_(entries) {
    SHARD8_REQUIRE(order.size() == entries.size(), "a unit of {} parameters has {} entries", order.size(),
                   entries.size());
  }
  /// T{} if the unit has no such parameter.
  const T& operator[](Parameter which) const {
    const auto found = std::find(order_.begin(), order_.end(), which);
    return found == order_.end() ? kNone : entries_[static_cast<std::size_t>(found - order_.begin())];
  }

 private:
  static inline const T kNone{};
  std::span<const Parameter> order_;
  std::span<const T> entries_;
};

/// Rows of this rank's part of a parameter that come from one Hugging Face tensor: local rows
/// [local_row, local_row + box.rows), with all local columns, are the box of the tensor `name`.
struct SourceBox {
  std::string name;
  std::int64_t local_row = 0;
  io::Box box;                                    ///< in (out, in) coordinates; without rows on some ranks
  std::int64_t global_rows = 0, global_cols = 1;  ///< (out, in) of the whole tensor
  bool stored_transposed = false;                 ///< files hold the tensor as (in, out)

  /// Rows and columns of the tensor in a file.
  std::int64_t stored_rows() const { return stored_transposed ? global_cols : global_rows; }
  std::int64_t stored_cols() const { return stored_transposed ? global_rows : global_cols; }
};

/// The rows of a shard that come from one Hugging Face tensor.
struct ShardPart {
  std::int64_t row = 0, rows = 0;  ///< rows [row, row + rows) of the shard
  io::StridedBox stored;  ///< the box of these rows in the file's tensor; offset 0 is the first element of `row`
};

/// The part of a shard that comes from `source`; the shard has the local rows [first, first + count). Without such rows
/// `rows` is 0. All numbers of the result count blocks of row_block × col_block elements of (out, in), as the scales of
/// blocks are kept. Throws Error(failed) if a block is cut.
ShardPart shard_part(const SourceBox& source, std::int64_t first, std::int64_t count, std::int64_t row_block = 1,
                     std::int64_t col_block = 1);

/// Initial values without a file: normal with mean 0 and ParameterSpec::standard_deviation, ones or zeros.
enum class Initial : std::uint8_t { normal, ones, zeros };

/// One parameter: its shape, what it holds at first, and where files have it. `name` is that of the fused parameter, as
/// "layers.3.qkv.weight". A vector has no weight decay. `gradient_overwritten` is true for the weights of matrix
/// products. unit_shapes() sets formats, cast and granularity.
struct ParameterSpec : fsdp::ParameterShape {
  Initial initial = Initial::normal;
  double standard_deviation = 0;
  std::vector<SourceBox> sources;  ///< rows in no source are padding, always zero
  /// The weight of one of a layer's linears, which a recipe may keep in FP8.
  std::optional<fp8::Linear> linear{};
  /// Whether the parameter is that of a layer's experts: a token is multiplied by those of its experts alone. The
  /// parameter has `groups` experts of the layer, from number first_expert on, and equally many of the sources belong
  /// to each expert.
  bool of_experts = false;
  std::int64_t first_expert = 0;
};

/// What is gathered at once: the embedding, a layer, the experts of a layer, or the root (final norm, head, tied
/// table).
struct UnitSpec {
  std::string name;
  std::vector<ParameterSpec> parameters;
  bool rotating = false;             ///< see fsdp::UnitShape
  bool single_use = false;           ///< see fsdp::UnitShape
  std::int64_t layer = -1;           ///< the layer's number from 0; -1: no layer
  bool backward_reads_both = false;  ///< see fsdp::UnitShape
};

/// All units as the rank at `place` computes with them: the embedding, the layers in order, the root, the experts of
/// the layers that have some, in order. The tensor ranks' number T must divide heads and kv_heads, and ffn if there are
/// layers without experts; the ranks of an expert group must divide the experts. A unit may have no parameters: the
/// embedding of a llama with a tied table. Without a place the units are whole.
std::vector<UnitSpec> make_units(const deck::ModelConfig& model, const base::Place& place = {});

/// How weights of linears are kept and communicated.
struct WeightFormat {
  fp8::Recipe recipe{};
  fsdp::Cast cast = fsdp::Cast::after_gather;  ///< when the masters are cast to FP8

  /// Whether FP8 shards are kept from step to step, together with the masters.
  bool stored() const { return cast == fsdp::Cast::stored; }
  static WeightFormat make(const deck::Config& config);
  /// The FP8 site of a parameter, of experts that of its first one; off if the parameter is not in FP8.
  fp8::Site site(const UnitSpec& unit, const ParameterSpec& parameter) const;
};

/// The shapes of the units, for sharding. Weights with one scale refer to their scale in `scaling`, which must outlive
/// all that is made from the shapes; null: nobody will read such weights.
std::vector<fsdp::UnitShape> unit_shapes(const std::vector<UnitSpec>& units, const WeightFormat& format = {},
                                         const fp8::ScalingState* scaling = nullptr);

/// Indices in the list of make_units().
inline int embedding_unit() { return 0; }
inline int layer_unit(std::int64_t layer) { return static_cast<int>(layer) + 1; }
inline int root_unit(std::int64_t layers) { return static_cast<int>(layers) + 1; }
/// The unit of the experts of a layer that has some.
inline int experts_unit(const deck::ModelConfig& model, std::int64_t layer) {
  return root_unit(model.layers) + 1 + static_cast<int>(layer - model.moe.dense_layers);
}

/// Number of parameters of the whole model, without padding.
std::int64_t parameter_count(const deck::ModelConfig& model);
/// Number of parameters that matrix products read for a token: a tied table once, an embedding table of its own not, of
/// experts those of the token's experts.
std::int64_t matmul_parameter_count(const deck::ModelConfig& model);

/// Fills this rank's master shards (and remainders) from `file`, which has Hugging Face's names and layouts, or with
/// random values if `file` is null. Padding rows are zero. This rank reads or draws only the rows that it owns, so no
/// rank ever holds a whole model, and every mesh starts from the same values. Communicates nothing. Names may lack the
/// prefix "transformer."; of a table of positions longer than seq the first rows are read. With master_remainder it
/// overwrites the gradient shards. Throws Error(deck) with name and shapes if a tensor is missing or has another shape,
/// and the errors of TensorFile::read_box.
void initialise(const tensor::Exec& exec, const fsdp::UnitBuffers& buffers, const std::vector<UnitSpec>& units,
                std::uint64_t seed, const io::TensorFile* file);

}  // namespace shard8::model

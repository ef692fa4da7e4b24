// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "comm/mesh.hpp"
#include "comm/parts.hpp"
#include "deck/config.hpp"
#include "deck/device.hpp"
#include "profile/phase.hpp"
#include "tensor/dtype.hpp"

namespace shard8::model {

using profile::Exchange;
using profile::ExchangeMethod;

/// One exchange of the tensor group, or of rows of experts.
struct TensorExchange {
  Exchange name;
  ExchangeMethod method = ExchangeMethod::off;
  int splits = 0;  ///< direct: see for_each_arrival; 0 on hosts, whose products are of one rank
  int chunks = 1;  ///< pipeline: see for_each_chunk_of_rank; 1 on hosts

  bool hidden() const { return method != ExchangeMethod::off; }
  /// How the exchange's rows are sent if it goes part by part.
  comm::Route route() const { return method == ExchangeMethod::ring ? comm::Route::ring : comm::Route::direct; }
  /// Whether the exchange goes part by part through memory that the ranks share, if they can.
  bool shares_memory() const { return hidden() && route() == comm::Route::direct; }
};

/// The exchanges of a column-parallel linear.
struct ColumnExchanges {
  TensorExchange forward;  ///< gather of the input
  TensorExchange gather;   ///< gather of the input in backward, for wgrad; bulk: overlapped with dgrad
  TensorExchange scatter;  ///< reduce-scatter of dgrad's result; bulk: overlapped with wgrad

  bool bulk() const { return gather.hidden() || scatter.hidden(); }
};

/// The exchanges of a row-parallel linear.
struct RowExchanges {
  TensorExchange forward;  ///< reduce-scatter of the output
  TensorExchange gather;  ///< gather of dy, the output's gradient; bulk: overlapped with the wgrad of the linear before
  bool wgrad_deferred = false;  ///< this linear's wgrad waits until the next such gather has begun
};

/// How exchanges of tokens overlap with matrix products. Results do not depend on it: the same products
/// and sums are computed, in another order. Only the reduce-scatters of a ring add the ranks' partial sums in another
/// order.
///
/// The backward of a model meets row-parallel linears in the order fc2, proj of the last layer, fc2, proj of the layer
/// below, and so on. A gather of dy for one of them has no product of its own linear to overlap with, because all of
/// these read dy. So the wgrad of the linear before is deferred: proj's gather is overlapped with fc2's wgrad, and
/// fc2's gather with the wgrad of proj in the layer above.
struct Overlap {
  profile::ExchangeMethods methods{};  ///< none is automatic
  int splits = 0, chunks = 1;          ///< as in TensorExchange
  int expert_chunks = 1;               ///< parts of a round of rows of experts

  /// The methods, splits and chunks that the deck gives. Nothing overlaps in a group of one.
  static Overlap make(const deck::Config& deck);

  TensorExchange of(Exchange exchange) const { return {exchange, methods[exchange], splits, chunks}; }
  ColumnExchanges qkv() const { return {of(Exchange::qkv_fprop), of(Exchange::qkv_dgrad), of(Exchange::qkv_wgrad)}; }
  ColumnExchanges fc1() const { return {of(Exchange::fc1_fprop), of(Exchange::fc1_dgrad), of(Exchange::fc1_wgrad)}; }
  RowExchanges proj() const {
    return {of(Exchange::proj_fprop), of(Exchange::proj_dgrad), hidden(Exchange::fc2_dgrad)};
  }
  RowExchanges fc2() const { return {of(Exchange::fc2_fprop), of(Exchange::fc2_dgrad), hidden(Exchange::proj_dgrad)}; }
  bool hidden(Exchange exchange) const { return of(exchange).hidden(); }

  bool any() const { return of_tensor_group() || of_experts(); }
  /// Whether an exchange of the tensor group, or one of rows of experts, overlaps.
  bool of_tensor_group() const;
  bool of_experts() const { return hidden(Exchange::dispatch) || hidden(Exchange::combine); }
  comm::OverlappedGroups groups() const { return {.tensor = of_tensor_group(), .expert = of_experts()}; }
  /// Whether an exchange of the tensor group goes part by part.
  bool by_parts() const;
  /// Whether the matrices that two linears gather must lie in the tensor group's memory at the same time.
  bool two_gathered() const { return hidden(Exchange::proj_dgrad) || hidden(Exchange::fc2_dgrad); }
};

/// Sizes of a layer's experts, and how the ranks of an expert group share them: each holds as many, the first rank the
/// first ones.
struct ExpertDims {
  std::int64_t experts = 0;    ///< of a layer; 0: no layer has experts
  std::int64_t per_token = 0;  ///< K, experts of a token
  std::int64_t ffn = 0;        ///< F, width inside an expert
  int ranks = 1;               ///< of an expert group
  double capacity = 1;         ///< rows of a round / mean rows of a rank, without padding
  /// The rows of each expert in a round are filled up with rows of zeros to a multiple of this number:
  /// fp8::Recipe::multiple().
  std::int64_t rows_multiple = 1;
  double balance = 0;  ///< coefficient of the balance loss
  deck::MoeRouting routing = deck::MoeRouting::learned;
  double skew = 0;                ///< of MoeRouting::zipf
  std::uint64_t seed = 0;         ///< of experts that are drawn
  std::int64_t dense_layers = 0;  ///< first layers without experts
  std::int64_t layers = 0;        ///< layers with experts
  bool pushes = false;            ///< how rows come to their experts: see ExpertExchange
  /// The routing that a recorded step has: false: equally many rows for every expert; true: the worst one, in which all
  /// tokens choose experts of the first rank of their group.
  bool worst = false;
  bool sends_fp8 = false;  ///< layers in FP8 cast tokens before they are sent (deck key moe.dispatch)

  bool on() const { return experts > 0; }
  /// Whether the rows of a round are sorted where they are multiplied. Otherwise a rank has them in this order before.
  bool sorts() const { return ranks > 1 || rows_multiple > 1; }
  /// Whether a layer of the model, counted from 0, has experts.
  bool in_layer(std::int64_t layer) const { return on() && layer >= dense_layers; }
  std::int64_t local() const { return experts / ranks; }  ///< experts that a rank holds of a layer
  /// Rows, pairs of a token and one of its experts, that a rank sends from `tokens` tokens; on average it receives as
  /// many.
  std::int64_t mean_rows(std::int64_t tokens) const { return tokens * per_token; }
  /// `rows` with padding.
  std::int64_t padded(std::int64_t rows) const { return (rows + rows_multiple - 1) / rows_multiple * rows_multiple; }
  /// The most rows that a rank can receive if each rank of its group has `tokens` tokens, with the padding that its
  /// experts can have at most.
  std::int64_t most_rows(std::int64_t tokens) const;
  /// Rows of a round of dispatch on a rank at most, with padding, and the most rounds.
  std::int64_t round_rows(std::int64_t tokens) const;
  std::int64_t most_rounds(std::int64_t tokens) const;
};

/// Sizes of the model on one tensor rank. The T ranks of a tensor group share every layer.
struct Dims {
  deck::Arch arch = deck::Arch::llama;
  int tensor = 1;          ///< T
  std::int64_t batch = 0;  ///< sequences of a micro-batch
  std::int64_t seq = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;     ///< query heads of this rank
  std::int64_t kv_heads = 0;  ///< key (and value) heads of this rank
  std::int64_t head_dim = 0;
  bool qk_norm = false;  ///< queries and keys are normalised
  std::int64_t ffn = 0;  ///< feed-forward width of this rank; 0 if all layers have experts
  ExpertDims experts;
  std::int64_t vocab = 0;        ///< whole vocabulary
  std::int64_t vocab_local = 0;  ///< ceil(vocab/T): the last ranks have padding rows
  std::int64_t head_tokens = 0;  ///< most tokens in a chunk of the head (HeadChunks); 0: as many as fit the caches
  float norm_eps = 1e-5f;
  tensor::DType compute = tensor::DType::fp32;
  bool device = deck::on_device({});  ///< whether steps run on a device
  bool deterministic = true;  ///< attention's backward gives the same bits in every run (kernels::AttentionShape)
  Overlap overlap;

  /// `micro_batch`: sequences; `tensor`: T. T must divide heads, kv_heads, ffn unless all layers have experts, and
  /// micro_batch·seq, as a loaded deck guarantees. `head_tokens`, `device`, `deterministic`, `overlap` and
  /// experts.ranks keep their defaults.
  static Dims make(const deck::ModelConfig& model, std::int64_t micro_batch, int tensor, tensor::DType compute);

  std::int64_t tokens() const { return batch * seq; }              ///< of a micro-batch, over the tensor group
  std::int64_t tokens_local() const { return tokens() / tensor; }  ///< of this rank between blocks, a contiguous range
  std::int64_t q_width() const { return heads * head_dim; }
  std::int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_dim; }
  /// Columns of qkv that are queries or keys.
  std::int64_t qk_width() const { return (heads + kv_heads) * head_dim; }
  /// Columns of fc1's output; for llama [gate | up].
  std::int64_t fc1_width() const { return arch == deck::Arch::llama ? 2 * ffn : ffn; }
  bool biases() const { return arch == deck::Arch::gpt2; }
};

/// Vocabulary rows of a tensor rank: the first one, and how many of its rows are not padding (0 if all are).
struct VocabRange {
  std::int64_t first = 0, valid = 0;
};
VocabRange vocab_range(std::int64_t vocab, int tensor, int tensor_rank);

tensor::DType dtype_of(deck::FloatType type);

}  // namespace shard8::model

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/expert_exchange.hpp"
#include "model/linear.hpp"
#include "model/vocabulary.hpp"
#include "profile/collective_log.hpp"
#include "tensor/arena.hpp"
#include "train/setup.hpp"

namespace shard8::train {

/// What the products of one linear of a layer read and write on one rank, in FP8 if the layer is in FP8.
struct LinearOperands {
  fp8::Operands x, dy;
  model::Weight w;
  tensor::Tensor y;   ///< what forward writes
  tensor::Tensor dw;  ///< fp32, of the shape of w
};

/// What a norm's forward and backward use in addition to x, y and dy: its input, its output and the gradient of its
/// output.
struct NormOperands {
  model::Norm norm;
  model::NormStatistics statistics, forward_statistics;  ///< read by backward, written by forward
  model::Affine w, dw;
  tensor::Tensor dx;  ///< (T_local, H), also the residual
};

/// What dispatch, combine and the products that overlap with them read and write in a layer with experts. T, K, R, F
/// and H as in model::MoeMlp. Every expert gets equally many rows, or one more or less.
struct ExpertOperands {
  model::ExpertExchange::Scratch scratch;
  tensor::Tensor counts;  ///< (ranks of the expert group, E) i32
  tensor::Tensor source;  ///< (T·K) i32
  /// Sent: (T, H) and (T·K) fp32. Received: (R, H) and (R) fp32. The rows are in FP8 if tokens are cast before they are
  /// sent.
  model::WeightedRows tokens, rows;
  tensor::Operand input, gradient;        ///< (R, H): the rows received, and in backward those of dy
  fp8::Operands activation, dinner;       ///< (R, F); (R, 2·F), the gradient of `inner`
  fp8::Operands kept;                     ///< (R, H): what wgrad reads if rows are cast when they arrive; else empty
  tensor::Tensor inner, dactivation, dw;  ///< (R, 2·F); (R, F); of fc1, fp32
  model::Weight fc1, fc2;
};

/// The matrices of one layer, of one with experts and of the head, for exchanges and products alone: those that the
/// setup's overlap needs. T_local, tokens and H as in model::Activations.
struct OverlapMemory {
  tensor::ArenaSet arenas;
  ExpertOperands experts;
  model::LinearScratch first;   ///< exchanged, of qkv and fc2
  model::LinearScratch second;  ///< exchanged, of proj and fc1
  model::LinearScratch least;   ///< exchanged, for one token of each rank
  LinearOperands qkv, proj, fc1, fc2;
  tensor::Tensor residual, local;  ///< (T_local, H): an addend, and the result of a reduce-scatter
  NormOperands norm;               ///< the input of the norm is `residual`
  tensor::Tensor dlogits;          ///< (tokens of the head's last chunk, vocab_local)
  model::HeadChunks head_chunks;
  tensor::Tensor head_w, head_dw;  ///< (vocab_local, H) in the compute dtype, and fp32
  tensor::Tensor logits;           ///< (tokens of the head's largest chunk, vocab_local) fp32
  std::int64_t head_first = 0;     ///< the first token of the head's last chunk
  tensor::Tensor workspace;        ///< u8, for model::Context
  tensor::Tensor zero;             ///< (1) fp32, 0: summed over ranks to align them

  /// Lays everything out in `arenas`. Nothing is filled. Exchanged matrices lie in MemoryKind::exchanged.
  OverlapMemory(const Setup& setup, tensor::ArenaSet arenas);
  OverlapMemory(const OverlapMemory&) = delete;
  OverlapMemory& operator=(const OverlapMemory&) = delete;
  static tensor::MemoryBytes bytes(const Setup& setup);

  /// Writes normal numbers to all matrices that are read, cast to FP8 with the scale kScale where they are in FP8. If
  /// the gradients of proj and fc2 lie where they are gathered (LinearScratch::casts_in_place), cases that gather
  /// inputs there overwrite them: later cases gather the bytes of those inputs as gradients, which takes the same time.
  void fill(const tensor::Exec& exec);

  /// Chosen: E4M3 holds seven standard deviations.
  static constexpr float kScale = 64;

 private:
  fp8::Operands operands(fp8::Role role, std::int64_t rows, std::int64_t cols, bool gathered);
  LinearOperands column(std::int64_t out);
  LinearOperands row(std::int64_t in, const model::LinearScratch& scratch);
  void allocate_layer();
  void allocate_experts();
  /// The weights (groups · out, in) of experts.
  model::Weight expert_weights(std::int64_t out, std::int64_t in);
  void fill_layer(const tensor::Exec& exec);
  void fill_experts(const tensor::Exec& exec);
  model::Weight weight(std::int64_t out, std::int64_t in);
  void fill(const tensor::Exec& exec, const fp8::Operands& out);
  void fill(const tensor::Exec& exec, const tensor::Tensor& out);

  const Setup& setup_;
  fp8::Recipe recipe_;  ///< of the layer; off if no layer is in FP8
  std::int64_t most_numbers_ = 0;
  tensor::Tensor numbers_, scale_;
  std::uint64_t filled_ = 0;
};

/// One exchange and the product that hides it, in every order in which they are timed. All functions are collective
/// over the exchange's group and do the same at each call.
struct OverlapCase {
  model::TensorExchange exchange{};
  std::int64_t m = 0, n = 0, k = 0;  ///< of the product on one rank, with all tokens
  tensor::DType dtype{};             ///< of the product's left operand
  profile::CollectiveKey moved{};    ///< of the exchange
  std::function<void()> prepare;     ///< makes what `product` reads; called before the others
  /// The product without an exchange. For a reduce-scatter also the norm that reads its result, forward or backward.
  std::function<void()> product;
  std::function<void()> alone;       ///< the exchange, no product
  std::function<void()> sequential;  ///< both in the plain order
  std::function<void()> overlapped;
  /// Methods by parts: the products and waits of `overlapped`, where each rank exchanges one token. Empty for bulk, and
  /// for rows of experts.
  std::function<void()> flags;
};

/// The cases of dispatch and combine that `overlap` hides. `setup` and what the functions use must outlive them.
std::vector<OverlapCase> expert_cases(const model::Context& context, const Setup& setup, const OverlapMemory& memory);

/// The cases of a layer and of the head that `overlap` hides, in the order of profile::Exchange, without those of
/// experts. What the functions use (context, memory) must outlive them. `accumulate`: wgrads add to what is there.
/// Collective over the tensor group.
std::vector<OverlapCase> overlap_cases(const model::Context& context, const model::Overlap& overlap,
                                       const OverlapMemory& memory, bool accumulate);

}  // namespace shard8::train

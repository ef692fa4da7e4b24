// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "fp8/quantizer.hpp"
#include "model/dims.hpp"
#include "model/head_chunks.hpp"
#include "model/operations.hpp"

namespace shard8::model {

/// Writes the operations of the modules to `out`, for weights that are already gathered. Each function mirrors the
/// function of the same name in transformer_layer, multihead_attention, layernorm_linear, layernorm_mlp, linear,
/// embedding, loss_head or fp8/quantizer. Who changes one changes the other: the tests train.step.plan and
/// train.fp8_runs.fp8_plan compare runs with the list.
class ModuleOperations {
 public:
  struct Options {
    deck::Recompute recompute = deck::Recompute::none;
    bool tied = false;        ///< the embedding's table is the head's
    std::int64_t layers = 1;  ///< of the model
    bool first_step = false;  ///< delayed scaling has no history yet
    bool device = tensor::kDevice;
  };
  /// `out` must outlive it. Functions set out.site, and head() sets out.phase; the caller sets the phase of the others.
  ModuleOperations(OperationWriter& out, const Dims& dims, const fp8::Recipe& recipe, const Options& options);

  void embedding_forward();
  /// Begins first unless the backward of a layer has begun it.
  void embedding_backward();
  void layer_forward(std::int64_t layer);
  /// Behind the last layer's forward.
  void layers_end();
  /// What Recompute::full computes a second time before backward.
  void layer_recompute(std::int64_t layer);
  /// What follows the backward of a layer at once: nothing, or the backward of the layer below or of the embedding.
  enum class Next : std::uint8_t { nothing, layer, embedding };
  /// `accumulate`: the weights' gradients already hold a sum of this step. Calls come in the order of a model's
  /// backward.
  void layer_backward(std::int64_t layer, bool accumulate, Next next);
  /// LossHead::forward_backward.
  void head(bool accumulate);

 private:
  using Linear = fp8::Linear;
  using Role = fp8::Role;
  using Tokens = fp8::Quantizer::Tokens;
  using Purpose = fp8::Quantizer::Purpose;

  /// A matrix that products of a linear read: (rows, cols) of one role.
  struct Matrix {
    Linear linear;
    Role role;
    std::int64_t rows, cols;
    Tokens tokens;
  };
  /// Columns of a linear's input and output on this rank, and whether it is column-parallel.
  struct Sizes {
    std::int64_t in, out;
    bool column;
  };

  Sizes sizes(Linear linear) const;
  Matrix input(Linear linear) const;
  Matrix output_gradient(Linear linear) const;
  bool cast_site() const;
  bool scaled_by_itself() const;
  bool gathered(const Matrix& m) const;
  bool two_copies(const Matrix& m) const;
  Format format(const Matrix& m, bool by_columns) const;
  Format weight(bool by_columns) const;
  std::uint64_t cast_bytes(const Matrix& m, Purpose purpose) const;

  void kernel(std::string_view name, std::int64_t rows, std::int64_t cols, tensor::DType in, tensor::DType out,
              std::uint64_t read, std::uint64_t written);
  void make(std::string_view name, const Matrix& m, std::uint64_t read, bool keep_plain, Purpose purpose,
            std::uint64_t written_more = 0);
  void cast(const Matrix& m, Purpose purpose);
  void cast_known(const Matrix& m, Purpose purpose);
  void quantize(const Matrix& m, Purpose purpose);

  /// A collective beside products runs on the stream gather or reduce, and its index is returned for the wait; others
  /// have their place on the compute stream.
  std::optional<int> gather(const Format& format, std::int64_t rows, std::int64_t cols, bool beside_products = false);
  /// `exchange` is direct, ring or off.
  std::optional<int> gather_by_parts(const TensorExchange& exchange, const Format& format, std::int64_t rows,
                                     std::int64_t cols);
  operation::Collective gather_call(const Format& format, std::int64_t rows, std::int64_t cols) const;
  operation::Collective reduce_scatter_call() const;
  std::optional<int> issue(const operation::Collective& collective, std::optional<Stream> beside_products);
  std::optional<int> reduce_scatter(bool beside_products = false);
  std::optional<int> reduce_scatter_by_parts(const TensorExchange& exchange);
  void reduce(std::uint64_t bytes, tensor::DType dtype);

  void by_arrival(const TensorExchange& gather, std::int64_t ranks, std::int64_t tokens,
                  const std::function<void(std::int64_t tokens)>& product) const;
  void fprop(Linear linear, bool bias, bool residual);
  void fprop_of_tokens(Linear linear, std::int64_t tokens, bool bias, bool residual);
  void dgrad(Linear linear);
  void wgrad(Linear linear);
  void bias_gradient(Linear linear);
  ColumnExchanges column(Linear linear) const;
  void column_forward(Linear linear);
  void column_backward(Linear linear);
  void row_forward(Linear linear);
  RowExchanges row(Linear linear) const;
  void pipeline(Linear linear);
  void row_begin(Linear linear);
  void row_dgrad(Linear linear);
  void row_wgrad(Linear linear);
  void gather_for_row_wgrad(Linear linear);

  void norm_forward(Linear linear, Purpose purpose);
  void norm_backward(bool residual, const TensorExchange& gradient);
  void column_norm_backward(Linear linear);
  void rotate(std::string_view name);
  void attention(bool backward);
  void attention_forward();
  void attention_begin_backward();
  void attention_backward(bool deferred);
  void activate(Purpose purpose);
  void activation_backward();
  void mlp_forward_saved();
  void mlp_backward();
  void layer_begin_backward(std::int64_t layer);
  void embedding_begin_backward();
  void head_forward(std::int64_t n, const HeadChunks& chunks, bool direct);
  std::optional<int> head_chunk(std::int64_t n, bool accumulate, bool last);

  /// The operations from now on belong to this linear of the layer.
  void at(std::optional<Linear> linear);
  template <class F>
  void recomputed(const F& f) {
    out_.recomputed = true;
    f();
    out_.recomputed = false;
  }
  std::uint64_t plain(std::int64_t elements) const { return bytes_of({dims_.compute}, elements); }
  bool selective() const { return options_.recompute == deck::Recompute::selective; }
  bool llama() const { return dims_.arch == deck::Arch::llama; }

  OperationWriter& out_;
  Dims dims_;
  fp8::Recipe recipe_;
  Options options_;
  std::int64_t layer_ = 0;   ///< whose operations are written
  bool accumulate_ = false;  ///< see layer_backward
  int summands_ = 1;         ///< of the next norm's input, if it is pending (row_linear_forward)
  bool begun_ = false;       ///< the backward of layer_, or of the embedding, has begun in that of the layer above
  std::optional<int> embedding_gathered_;              ///< gather under way of Embedding::begin_backward
  std::map<Linear, std::optional<int>> row_gathered_;  ///< gathers under way of RowBackward
};

}  // namespace shard8::model

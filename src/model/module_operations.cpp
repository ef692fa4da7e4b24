// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/module_operations.hpp"

#include <algorithm>
#include <utility>

#include "model/head_chunks.hpp"
#include "model/parameters.hpp"
#include "tensor/summands.hpp"

namespace shard8::model {

using profile::Phase;
using tensor::DType;
using Product = Operation::Product;

ModuleOperations::ModuleOperations(OperationWriter& out, const Dims& dims, const fp8::Recipe& recipe,
                                   const Options& options)
    : out_(out), dims_(dims), recipe_(recipe), options_(options) {
  recipe_.transposes = options.device;
}

// Norms.

/// The norm before a column-parallel linear. If its input is pending, it reads the summands and writes the sum, too.
void ModuleOperations::norm_forward(Linear linear, Purpose purpose) {
  const bool recompute = purpose == Purpose::recomputed;
  const Matrix y = input(linear);
  const std::uint64_t statistics = (llama() ? 1 : 2) * bytes_of({DType::fp32}, y.rows);
  const int summands = recompute ? 1 : std::exchange(summands_, 1);
  const std::uint64_t x = plain(y.rows * y.cols), sum = summands > 1 ? x : 0;
  const std::uint64_t read =
      static_cast<std::uint64_t>(summands) * x + plain((llama() ? 1 : 2) * y.cols) + (recompute ? statistics : 0);
  const std::string_view name = llama() ? (recompute ? "rmsnorm_recompute" : "rmsnorm_forward")
                                        : (recompute ? "layernorm_recompute" : "layernorm_forward");
  make(name, y, read, false, purpose, sum + (recompute ? 0 : statistics));
}

/// `residual`: the kernel adds the gradient of the residual path.
/// `gradient`: the exchange that gives the gradient of the norm's output. On a device that hides it the norm reads
/// every rank's summand.
void ModuleOperations::norm_backward(bool residual, const TensorExchange& gradient) {
  const std::int64_t rows = dims_.tokens_local(), vectors = llama() ? 1 : 2;
  const bool summands = options_.device && gradient.hidden() && dims_.tensor <= tensor::Summands::kMost;
  const std::uint64_t read = 1 + (summands ? static_cast<std::uint64_t>(dims_.tensor) : 1) + (residual ? 1 : 0);
  const std::uint64_t x = plain(rows * dims_.hidden);
  const std::uint64_t weights = bytes_of({DType::fp32}, vectors * dims_.hidden);
  kernel(llama() ? "rmsnorm_backward" : "layernorm_backward", rows, dims_.hidden, dims_.compute, dims_.compute,
         read * x + bytes_of({DType::fp32}, vectors * rows) + plain(dims_.hidden) + weights, x + weights);
}

// Blocks of a layer.

void ModuleOperations::rotate(std::string_view name) {
  if (!llama()) return;
  const std::int64_t cols = (dims_.heads + dims_.kv_heads) * dims_.head_dim;
  const std::uint64_t rotated = plain(dims_.tokens() * cols);
  kernel(name, dims_.tokens(), cols, dims_.compute, dims_.compute,
         rotated + bytes_of({DType::fp32}, dims_.seq * dims_.head_dim), rotated);
}

void ModuleOperations::attention(bool backward) {
  out_.attention({backward,
                  {dims_.batch, dims_.seq, dims_.heads, dims_.kv_heads, dims_.head_dim, dims_.deterministic},
                  dims_.compute});
}

void ModuleOperations::attention_forward() {
  const Purpose purpose = selective() ? Purpose::forward_pass : Purpose::both_passes;
  at(Linear::qkv);
  norm_forward(Linear::qkv, purpose);
  column_forward(Linear::qkv);
  at({});
  rotate("rope_forward");
  attention(false);
  at(Linear::proj);
  if (cast_site()) cast(input(Linear::proj), purpose);
  row_forward(Linear::proj);
}

void ModuleOperations::attention_begin_backward() {
  at(Linear::proj);
  if (selective() && cast_site()) recomputed([&] { cast(input(Linear::proj), Purpose::recomputed); });
  row_begin(Linear::proj);
}

void ModuleOperations::attention_backward(bool deferred) {
  at(Linear::proj);
  row_dgrad(Linear::proj);
  if (!deferred) row_wgrad(Linear::proj);
  at({});
  attention(true);
  rotate("rope_backward");
  at(Linear::qkv);
  if (cast_site()) cast(output_gradient(Linear::qkv), Purpose::both_passes);
  column_norm_backward(Linear::qkv);
}

/// LayernormLinear::backward. The output's gradient has been cast before.
void ModuleOperations::column_norm_backward(Linear linear) {
  if (selective()) recomputed([&] { norm_forward(linear, Purpose::recomputed); });
  column_backward(linear);
  norm_backward(true, column(linear).scatter);
}

void ModuleOperations::activate(Purpose purpose) {
  const Matrix a = input(Linear::fc2);
  make(llama() ? "swiglu_forward" : "gelu_forward", a, plain(a.rows * dims_.fc1_width()), false, purpose);
}

/// LayernormMlp::forward_saved.
void ModuleOperations::mlp_forward_saved() {
  const Purpose purpose = selective() ? Purpose::forward_pass : Purpose::both_passes;
  at(Linear::fc1);
  norm_forward(Linear::fc1, purpose);
  column_forward(Linear::fc1);
  at(Linear::fc2);
  activate(purpose);
}

void ModuleOperations::activation_backward() {
  const Matrix a = input(Linear::fc2), dy = output_gradient(Linear::fc1);
  // Bytes of the recomputed activation that the kernel of its gradient writes.
  std::uint64_t written = 0;
  if (selective() && !cast_site()) written = plain(a.rows * a.cols);
  if (selective() && cast_site() && recipe_.per_tensor()) written = cast_bytes(a, Purpose::recomputed);
  if (selective() && cast_site() && !recipe_.per_tensor()) recomputed([&] { activate(Purpose::recomputed); });
  at(Linear::fc1);
  make(llama() ? "swiglu_backward" : "gelu_backward", dy, plain(a.rows * (a.cols + dims_.fc1_width())), dims_.biases(),
       Purpose::both_passes, written);
}

void ModuleOperations::mlp_backward() {
  at(Linear::fc2);
  row_dgrad(Linear::fc2);
  const bool at_once = !dims_.overlap.fc2().wgrad_deferred;
  if (at_once && !selective()) row_wgrad(Linear::fc2);
  activation_backward();
  at(Linear::fc2);
  if (at_once && selective()) row_wgrad(Linear::fc2);
  at(Linear::fc1);
  column_norm_backward(Linear::fc1);
}

void ModuleOperations::at(std::optional<Linear> linear) { out_.site = {layer_unit(layer_), linear}; }

void ModuleOperations::layer_forward(std::int64_t layer) {
  layer_ = layer;
  attention_forward();
  mlp_forward_saved();
  row_forward(Linear::fc2);
}

/// With Recompute::full the last layer's result is made before the head.
void ModuleOperations::layers_end() {
  const int summands = options_.recompute == deck::Recompute::full ? std::exchange(summands_, 1) : 1;
  if (summands == 1) return;
  const std::uint64_t x = plain(dims_.tokens_local() * dims_.hidden);
  kernel("make_sum", dims_.tokens_local(), dims_.hidden, dims_.compute, dims_.compute,
         static_cast<std::uint64_t>(summands) * x, x);
}

void ModuleOperations::layer_recompute(std::int64_t layer) {
  layer_ = layer;
  recomputed([&] {
    attention_forward();
    mlp_forward_saved();
  });
}

void ModuleOperations::layer_begin_backward(std::int64_t layer) {
  layer_ = layer;
  at(Linear::fc2);
  row_begin(Linear::fc2);
}

void ModuleOperations::layer_backward(std::int64_t layer, bool accumulate, Next next) {
  accumulate_ = accumulate;
  const Overlap& overlap = dims_.overlap;
  if (!begun_) layer_begin_backward(layer);
  layer_ = layer;
  mlp_backward();
  attention_begin_backward();
  if (overlap.fc2().wgrad_deferred) {
    at(Linear::fc2);
    row_wgrad(Linear::fc2);
  }
  begun_ = next != Next::nothing && overlap.fc2().gather.hidden();
  const bool deferred = begun_ && overlap.proj().wgrad_deferred;
  attention_backward(deferred);
  if (begun_ && next == Next::layer) layer_begin_backward(layer - 1);
  if (begun_ && next == Next::embedding) embedding_begin_backward();
  if (!deferred) return;
  layer_ = layer;
  at(Linear::proj);
  row_wgrad(Linear::proj);
}

// Embedding and head.

void ModuleOperations::embedding_forward() {
  out_.site = {options_.tied ? root_unit(options_.layers) : embedding_unit(), {}};
  const std::uint64_t x = plain(dims_.tokens() * dims_.hidden), local = plain(dims_.tokens_local() * dims_.hidden);
  kernel("embedding_forward", dims_.tokens(), dims_.hidden, dims_.compute, dims_.compute,
         x + bytes_of({DType::i32}, dims_.tokens()), x);
  reduce_scatter();
  if (llama()) return;
  out_.site = {embedding_unit(), {}};
  kernel("position_forward", dims_.tokens_local(), dims_.hidden, dims_.compute, dims_.compute, 2 * local, local);
}

void ModuleOperations::embedding_begin_backward() {
  out_.site = {options_.tied ? root_unit(options_.layers) : embedding_unit(), {}};
  embedding_gathered_ =
      gather({dims_.compute}, dims_.tokens_local(), dims_.hidden, dims_.overlap.fc2().gather.hidden());
}

void ModuleOperations::embedding_backward() {
  const std::uint64_t x = plain(dims_.tokens() * dims_.hidden), local = plain(dims_.tokens_local() * dims_.hidden);
  out_.site = {embedding_unit(), {}};
  const auto rows = [&](std::int64_t tokens) { return bytes_of({DType::fp32}, tokens * dims_.hidden); };
  if (!llama())
    kernel("position_backward", dims_.tokens_local(), dims_.hidden, dims_.compute, DType::fp32,
           local + rows(std::min(dims_.seq, dims_.tokens_local())), rows(std::min(dims_.seq, dims_.tokens_local())));
  out_.site = {options_.tied ? root_unit(options_.layers) : embedding_unit(), {}};
  if (!std::exchange(begun_, false)) embedding_begin_backward();
  out_.wait(std::exchange(embedding_gathered_, {}));
  kernel("embedding_backward", dims_.tokens(), dims_.hidden, dims_.compute, DType::fp32,
         x + bytes_of({DType::i32}, dims_.tokens()) + rows(dims_.tokens()), rows(dims_.tokens()));
}

void ModuleOperations::head(bool accumulate) {
  out_.site = {root_unit(options_.layers), {}};
  out_.phase = Phase::forward;
  const std::int64_t rows = dims_.tokens_local(), vectors = llama() ? 1 : 2;
  const int summands = std::exchange(summands_, 1);
  const auto norm = [&](std::int64_t of) {
    if (of > 0)
      kernel(llama() ? "rmsnorm_forward" : "layernorm_forward", of, dims_.hidden, dims_.compute, dims_.compute,
             plain((summands * of + vectors) * dims_.hidden),
             plain((summands > 1 ? 2 : 1) * of * dims_.hidden) + bytes_of({DType::fp32}, vectors * of));
  };
  const HeadChunks chunks = HeadChunks::make(dims_, options_.device);
  const bool direct = dims_.overlap.of(Exchange::head_fprop).hidden();
  const std::int64_t first_rows = direct ? chunks.gathered_first() : rows;
  const bool at_once = !options_.device || !chunks.normed_in_place();
  norm(at_once ? rows : first_rows);
  norm(at_once ? 0 : rows - first_rows);
  const auto gathering =
      gather_by_parts(dims_.overlap.of(Exchange::head_fprop), {dims_.compute}, first_rows, dims_.hidden);
  std::optional<int> others, scattering;
  if (first_rows < rows) others = gather({dims_.compute}, rows - first_rows, dims_.hidden, true);
  for (std::int64_t first = 0, n = 0; first < chunks.tokens; first += n) {
    n = chunks.size(first);
    if (first > 0) out_.wait(std::exchange(others, {}));
    head_forward(n, chunks, direct && first == 0);
    if (first == 0) out_.wait(gathering);
    scattering = head_chunk(n, accumulate || first > 0, chunks.last(first));
  }
  out_.wait(scattering);
  norm_backward(false, dims_.overlap.of(Exchange::head_dgrad));
}

/// The forward products of a chunk of `n` tokens, HeadInput::forward. `direct`: in the order of arrival, as on rank 0.
void ModuleOperations::head_forward(std::int64_t n, const HeadChunks& chunks, bool direct) {
  const Format compute{dims_.compute};
  const auto product = [&](std::int64_t tokens) {
    out_.product({Product::Kind::fprop, tokens, dims_.vocab_local, dims_.hidden, compute, compute, DType::fp32});
  };
  out_.phase = Phase::forward;
  const std::int64_t of_a_rank = chunks.of_a_rank(n);
  if (direct) return by_arrival(dims_.overlap.of(Exchange::head_fprop), n / of_a_rank, of_a_rank, product);
  if (options_.device) return product(n);
  for (std::int64_t row = 0; row < n; row += of_a_rank) product(of_a_rank);
}

/// `last`: the chunk that is followed by the reduce-scatter, whose index it returns if it runs beside the wgrad.
std::optional<int> ModuleOperations::head_chunk(std::int64_t n, bool accumulate, bool last) {
  const std::int64_t v = dims_.vocab_local, h = dims_.hidden;
  const Format compute{dims_.compute};
  const std::uint64_t logits = bytes_of({DType::fp32}, n * v), row = bytes_of({DType::fp32}, n);
  kernel("cross_entropy_max", n, v, DType::fp32, DType::fp32, logits, row);
  reduce(row, DType::fp32);
  kernel("cross_entropy_sums", n, v, DType::fp32, DType::fp32, logits + 2 * row, 2 * row);
  reduce(2 * row, DType::fp32);
  kernel("cross_entropy_loss", n, 1, DType::fp32, DType::fp32, 3 * row, 0);
  out_.phase = Phase::backward;
  kernel("cross_entropy_backward", n, v, DType::fp32, dims_.compute, logits + 5 * row, plain(n * v));
  const auto wgrad = [&] { out_.product({Product::Kind::wgrad, v, h, n, compute, compute, DType::fp32, accumulate}); };
  const bool overlap = dims_.overlap.of(Exchange::head_dgrad).hidden();
  if (!last || !overlap) wgrad();
  out_.product({Product::Kind::dgrad, n, h, v, compute, compute, dims_.compute});
  if (!last) return std::nullopt;
  const auto scattering = reduce_scatter(overlap);
  if (overlap) wgrad();
  return scattering;
}

}  // namespace shard8::model

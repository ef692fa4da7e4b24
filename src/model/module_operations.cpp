// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/module_operations.hpp"

#include <algorithm>

#include "fp8/cast_buffer.hpp"
#include "model/parameters.hpp"
#include "model/workspace.hpp"

namespace shard8::model {

using profile::Phase;
using tensor::DType;
using Product = Operation::Product;

ModuleOperations::ModuleOperations(OperationWriter& out, const Dims& dims, const fp8::Recipe& recipe,
                                   const Options& options)
    : out_(out), dims_(dims), recipe_(recipe), options_(options) {
  recipe_.transposes = options.device;
}

// What linears read.

ModuleOperations::Sizes ModuleOperations::sizes(Linear linear) const {
  switch (linear) {
    case Linear::qkv:
      return {dims_.hidden, dims_.qkv_width(), true};
    case Linear::proj:
      return {dims_.q_width(), dims_.hidden, false};
    case Linear::fc1:
      return {dims_.hidden, dims_.fc1_width(), true};
    case Linear::fc2:
      break;
  }
  return {dims_.ffn, dims_.hidden, false};
}

ModuleOperations::Matrix ModuleOperations::input(Linear linear) const {
  const Sizes s = sizes(linear);
  if (s.column) return {linear, Role::input, dims_.tokens_local(), s.in, Tokens::part};
  return {linear, Role::input, dims_.tokens(), s.in, Tokens::all};
}

ModuleOperations::Matrix ModuleOperations::output_gradient(Linear linear) const {
  const Sizes s = sizes(linear);
  if (s.column) return {linear, Role::output_gradient, dims_.tokens(), s.out, Tokens::all};
  return {linear, Role::output_gradient, dims_.tokens_local(), s.out, Tokens::part};
}

/// Whether the linears of this layer are in FP8.
bool ModuleOperations::cast_site() const { return recipe_.site(layer_, Linear::qkv).on(); }

bool ModuleOperations::gathered(const Matrix& m) const { return m.tokens == Tokens::part && dims_.tensor > 1; }

/// Whether the copy by columns is another than that by rows.
bool ModuleOperations::two_copies(const Matrix& m) const {
  return cast_site() && (recipe_.two_copies(m.role) || recipe_.transposed(gathered(m)));
}

Format ModuleOperations::format(const Matrix& m, bool by_columns) const {
  if (!cast_site()) return {dims_.compute};
  const auto scaling = by_columns ? recipe_.by_columns(m.role) : recipe_.by_rows(m.role);
  return {recipe_.dtype(m.role), scaling, by_columns && recipe_.transposed(gathered(m))};
}

Format ModuleOperations::weight(bool by_columns) const {
  if (!cast_site()) return {dims_.compute};
  return {recipe_.dtype(Role::weight), by_columns ? recipe_.by_columns(Role::weight) : recipe_.by_rows(Role::weight)};
}

// Casts, as fp8::Quantizer makes them.

/// Bytes of the copies that a cast writes.
std::uint64_t ModuleOperations::cast_bytes(const Matrix& m, Purpose purpose) const {
  const std::uint64_t rows = bytes_of(format(m, false), m.rows * m.cols);
  const std::uint64_t columns = two_copies(m) ? bytes_of(format(m, true), m.rows * m.cols) : 0;
  if (purpose == Purpose::forward_pass) return rows;
  if (purpose == Purpose::recomputed && columns > 0) return columns;
  return rows + columns;
}

void ModuleOperations::kernel(std::string_view name, std::int64_t rows, std::int64_t cols, DType in, DType out,
                              std::uint64_t read, std::uint64_t written) {
  out_.kernel({name, rows, cols, in, out}, read, written);
}

/// The kernel `name` makes a matrix of `read` bytes, plain or with its cast.
void ModuleOperations::make(std::string_view name, const Matrix& m, std::uint64_t read, bool keep_plain, Purpose purpose,
                            std::uint64_t written_more) {
  const std::uint64_t whole = plain(m.rows * m.cols);
  if (!cast_site()) return kernel(name, m.rows, m.cols, dims_.compute, dims_.compute, read, whole + written_more);
  const bool again = purpose == Purpose::recomputed;
  const bool at_once = recipe_.per_tensor() && (again || !scaled_by_itself());
  if (!at_once) {
    kernel(name, m.rows, m.cols, dims_.compute, dims_.compute, read, whole + written_more);
    return cast_known(m, purpose);
  }
  kernel(name, m.rows, m.cols, dims_.compute, recipe_.dtype(m.role), read,
         cast_bytes(m, purpose) + (keep_plain && !again ? whole : 0) + written_more);
}

void ModuleOperations::cast(const Matrix& m, Purpose purpose) {
  if (!recipe_.per_tensor()) return cast_known(m, purpose);
  if (purpose == Purpose::recomputed || !scaled_by_itself()) return quantize(m, purpose);
  kernel("amax", m.rows, m.cols, dims_.compute, DType::i32, plain(m.rows * m.cols), 0);
  cast_known(m, purpose);
}

void ModuleOperations::cast_known(const Matrix& m, Purpose purpose) {
  if (!recipe_.per_tensor()) {
    const std::uint64_t copies =
        purpose == Purpose::recomputed ? bytes_of(format(m, true), m.rows * m.cols) : cast_bytes(m, purpose);
    return kernel("quantize_blocks", m.rows, m.cols, dims_.compute, recipe_.dtype(m.role), plain(m.rows * m.cols),
                  copies);
  }
  if (m.tokens == Tokens::part) reduce(sizeof(std::int32_t), DType::i32);
  kernel("scale_of_amax", 1, 1, DType::i32, DType::fp32, sizeof(std::int32_t), sizeof(float));
  quantize(m, purpose);
}

/// With one scale that is known.
void ModuleOperations::quantize(const Matrix& m, Purpose purpose) {
  const bool transposes = purpose != Purpose::forward_pass && format(m, true).transposed;
  kernel(transposes ? "quantize_transpose" : "quantize", m.rows, m.cols, dims_.compute, recipe_.dtype(m.role),
         plain(m.rows * m.cols), cast_bytes(m, purpose));
}

bool ModuleOperations::scaled_by_itself() const { return !recipe_.delayed() || options_.first_step; }

// Collectives of the tensor group.

void ModuleOperations::gather(const Format& format, std::int64_t rows, std::int64_t cols) {
  const std::int64_t elements = rows * cols * dims_.tensor;
  const bool blocks = format.scaling != tensor::Scaling::none && format.scaling != tensor::Scaling::tensor;
  Operation::Collective c{profile::Collective::all_gather, Group::tensor, dims_.tensor};
  c.parts.push_back({format.dtype, static_cast<std::uint64_t>(elements) * tensor::size_of(format.dtype)});
  if (blocks)
    c.parts.push_back(
        {tensor::scale_dtype(format.scaling), static_cast<std::uint64_t>(fp8::scale_bytes(format.scaling, elements))});
  c.items = blocks ? 2 : 1;
  out_.collective(c, Stream::compute);
}

void ModuleOperations::reduce_scatter() {
  Operation::Collective c{profile::Collective::reduce_scatter, Group::tensor, dims_.tensor};
  c.parts.push_back({dims_.compute, plain(dims_.tokens() * dims_.hidden)});
  out_.collective(c, Stream::compute);
}

void ModuleOperations::reduce(std::uint64_t bytes, DType dtype) {
  Operation::Collective c{profile::Collective::all_reduce, Group::tensor, dims_.tensor};
  c.parts.push_back({dtype, bytes});
  out_.collective(c, Stream::compute);
}

// Linears.

void ModuleOperations::fprop(Linear linear, bool bias, bool residual) {
  const Sizes s = sizes(linear);
  out_.product({Product::Kind::fprop, dims_.tokens(), s.out, s.in, format(input(linear), false), weight(false),
                dims_.compute, false, bias, residual});
}

void ModuleOperations::dgrad(Linear linear) {
  const Sizes s = sizes(linear);
  out_.product({Product::Kind::dgrad, dims_.tokens(), s.in, s.out, format(output_gradient(linear), false), weight(true),
                dims_.compute});
}

void ModuleOperations::wgrad(Linear linear) {
  const Sizes s = sizes(linear);
  out_.product({Product::Kind::wgrad, s.out, s.in, dims_.tokens(), format(output_gradient(linear), true),
                format(input(linear), true), DType::fp32, accumulate_});
}

void ModuleOperations::bias_gradient(Linear linear) {
  if (!dims_.biases()) return;
  const Matrix dy = output_gradient(linear);
  const std::uint64_t bias = bytes_of({DType::fp32}, dy.cols);
  kernel("bias_gradient", dy.rows, dy.cols, dims_.compute, DType::fp32, plain(dy.rows * dy.cols) + bias, bias);
}

void ModuleOperations::column_forward(Linear linear) {
  const Matrix x = input(linear);
  gather(format(x, false), x.rows, x.cols);
  fprop(linear, dims_.biases(), false);
}

void ModuleOperations::column_backward(Linear linear) {
  bias_gradient(linear);
  const Matrix x = input(linear);
  gather(format(x, true), x.rows, x.cols);
  wgrad(linear);
  dgrad(linear);
  reduce_scatter();
}

void ModuleOperations::row_forward(Linear linear) {
  if (options_.device && dims_.tensor == 1) return fprop(linear, dims_.biases(), true);
  fprop(linear, false, false);
  reduce_scatter();
  if (!dims_.biases() && dims_.tensor > 1) return;  // the collective adds the residual
  const std::uint64_t y = plain(dims_.tokens_local() * dims_.hidden);
  kernel("residual_add", dims_.tokens_local(), dims_.hidden, dims_.compute, dims_.compute,
         2 * y + (dims_.biases() ? plain(dims_.hidden) : 0), y);
}

void ModuleOperations::row_dgrad(Linear linear) {
  bias_gradient(linear);
  const Matrix dy = output_gradient(linear);
  gather(format(dy, false), dy.rows, dy.cols);
  dgrad(linear);
}

void ModuleOperations::row_wgrad(Linear linear) {
  const Matrix dy = output_gradient(linear);
  if (two_copies(dy)) gather(format(dy, true), dy.rows, dy.cols);
  wgrad(linear);
}

// Norms.

/// Before a column-parallel linear.
void ModuleOperations::norm_forward(Linear linear, Purpose purpose) {
  const bool again = purpose == Purpose::recomputed;
  const Matrix y = input(linear);
  const std::uint64_t statistics = (llama() ? 1 : 2) * bytes_of({DType::fp32}, y.rows);
  const std::uint64_t read = plain(y.rows * y.cols + (llama() ? 1 : 2) * y.cols) + (again ? statistics : 0);
  const std::string_view name =
      llama() ? (again ? "rmsnorm_recompute" : "rmsnorm_forward") : (again ? "layernorm_recompute" : "layernorm_forward");
  make(name, y, read, false, purpose, again ? 0 : statistics);
}

/// The gradient of the residual path is added.
void ModuleOperations::norm_backward(bool residual) {
  const std::int64_t rows = dims_.tokens_local(), vectors = llama() ? 1 : 2;
  const std::uint64_t x = plain(rows * dims_.hidden);
  const std::uint64_t weights = bytes_of({DType::fp32}, vectors * dims_.hidden);
  kernel(llama() ? "rmsnorm_backward" : "layernorm_backward", rows, dims_.hidden, dims_.compute, dims_.compute,
         (residual ? 3 : 2) * x + bytes_of({DType::fp32}, vectors * rows) + plain(dims_.hidden) + weights, x + weights);
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

void ModuleOperations::attention_backward() {
  at(Linear::proj);
  if (selective() && cast_site()) recomputed([&] { cast(input(Linear::proj), Purpose::recomputed); });
  if (cast_site()) cast(output_gradient(Linear::proj), Purpose::both_passes);
  row_dgrad(Linear::proj);
  row_wgrad(Linear::proj);
  at({});
  attention(true);
  rotate("rope_backward");
  at(Linear::qkv);
  if (cast_site()) cast(output_gradient(Linear::qkv), Purpose::both_passes);
  column_norm_backward(Linear::qkv);
}

/// As LayernormLinear::backward does, of the output's gradient as products read it.
void ModuleOperations::column_norm_backward(Linear linear) {
  if (selective()) recomputed([&] { norm_forward(linear, Purpose::recomputed); });
  column_backward(linear);
  norm_backward(true);
}

void ModuleOperations::activate(Purpose purpose) {
  const Matrix a = input(Linear::fc2);
  make(llama() ? "swiglu_forward" : "gelu_forward", a, plain(a.rows * dims_.fc1_width()), false, purpose);
}

/// All that backward needs.
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
  // What the activation's backward writes of the activation itself.
  std::uint64_t again = 0;
  if (selective() && !cast_site()) again = plain(a.rows * a.cols);
  if (selective() && cast_site() && recipe_.per_tensor()) again = cast_bytes(a, Purpose::recomputed);
  if (selective() && cast_site() && !recipe_.per_tensor()) recomputed([&] { activate(Purpose::recomputed); });
  at(Linear::fc1);
  make(llama() ? "swiglu_backward" : "gelu_backward", dy, plain(a.rows * (a.cols + dims_.fc1_width())), dims_.biases(),
       Purpose::both_passes, again);
}

void ModuleOperations::mlp_backward() {
  at(Linear::fc2);
  if (cast_site()) cast(output_gradient(Linear::fc2), Purpose::both_passes);
  row_dgrad(Linear::fc2);
  if (!selective()) row_wgrad(Linear::fc2);
  activation_backward();
  at(Linear::fc2);
  if (selective()) row_wgrad(Linear::fc2);
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

void ModuleOperations::layer_recompute(std::int64_t layer) {
  layer_ = layer;
  recomputed([&] {
    attention_forward();
    mlp_forward_saved();
  });
}

void ModuleOperations::layer_backward(std::int64_t layer, bool accumulate) {
  layer_ = layer;
  accumulate_ = accumulate;
  mlp_backward();
  attention_backward();
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

void ModuleOperations::embedding_backward() {
  const std::uint64_t x = plain(dims_.tokens() * dims_.hidden), local = plain(dims_.tokens_local() * dims_.hidden);
  out_.site = {embedding_unit(), {}};
  const auto rows = [&](std::int64_t tokens) { return bytes_of({DType::fp32}, tokens * dims_.hidden); };
  if (!llama())
    kernel("position_backward", dims_.tokens_local(), dims_.hidden, dims_.compute, DType::fp32,
           local + rows(std::min(dims_.seq, dims_.tokens_local())), rows(std::min(dims_.seq, dims_.tokens_local())));
  out_.site = {options_.tied ? root_unit(options_.layers) : embedding_unit(), {}};
  gather({dims_.compute}, dims_.tokens_local(), dims_.hidden);
  kernel("embedding_backward", dims_.tokens(), dims_.hidden, dims_.compute, DType::fp32,
         x + bytes_of({DType::i32}, dims_.tokens()) + rows(dims_.tokens()), rows(dims_.tokens()));
}

void ModuleOperations::head(bool accumulate) {
  out_.site = {root_unit(options_.layers), {}};
  out_.phase = Phase::forward;
  const std::int64_t rows = dims_.tokens_local(), vectors = llama() ? 1 : 2;
  kernel(llama() ? "rmsnorm_forward" : "layernorm_forward", rows, dims_.hidden, dims_.compute, dims_.compute,
         plain(rows * dims_.hidden + vectors * dims_.hidden),
         plain(rows * dims_.hidden) + bytes_of({DType::fp32}, vectors * rows));
  gather({dims_.compute}, rows, dims_.hidden);
  const std::int64_t chunk = head_chunk_tokens(dims_, options_.device);
  for (std::int64_t first = 0; first < dims_.tokens(); first += chunk)
    head_chunk(std::min(chunk, dims_.tokens() - first), accumulate || first > 0);
  reduce_scatter();
  norm_backward(false);
}

void ModuleOperations::head_chunk(std::int64_t n, bool accumulate) {
  const std::int64_t v = dims_.vocab_local, h = dims_.hidden;
  const Format compute{dims_.compute};
  const std::uint64_t logits = bytes_of({DType::fp32}, n * v), row = bytes_of({DType::fp32}, n);
  out_.phase = Phase::forward;
  out_.product({Product::Kind::fprop, n, v, h, compute, compute, DType::fp32});
  kernel("cross_entropy_max", n, v, DType::fp32, DType::fp32, logits, row);
  reduce(row, DType::fp32);
  kernel("cross_entropy_sums", n, v, DType::fp32, DType::fp32, logits + 2 * row, 2 * row);
  reduce(2 * row, DType::fp32);
  kernel("cross_entropy_loss", n, 1, DType::fp32, DType::fp32, 3 * row, 0);
  out_.phase = Phase::backward;
  kernel("cross_entropy_backward", n, v, DType::fp32, dims_.compute, logits + 5 * row, plain(n * v));
  out_.product({Product::Kind::wgrad, v, h, n, compute, compute, DType::fp32, accumulate});
  out_.product({Product::Kind::dgrad, n, h, v, compute, compute, dims_.compute});
}

}  // namespace shard8::model

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

// The part of ModuleOperations that mirrors linear, sequence_parallel and fp8/quantizer.

#include <utility>

#include "fp8/cast_buffer.hpp"
#include "model/module_operations.hpp"
#include "model/sequence_parallel.hpp"
#include "tensor/summands.hpp"

namespace shard8::model {

using tensor::DType;
using Product = Operation::Product;

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

/// Whether the copies by rows and by columns are two matrices in memory.
bool ModuleOperations::two_copies(const Matrix& m) const {
  return cast_site() && (recipe_.two_copies(m.role) || recipe_.transposed(m.role, gathered(m)));
}

Format ModuleOperations::format(const Matrix& m, bool by_columns) const {
  if (!cast_site()) return {dims_.compute};
  const auto scaling = by_columns ? recipe_.by_columns(m.role) : recipe_.by_rows(m.role);
  return {recipe_.dtype(m.role), scaling, by_columns && recipe_.transposed(m.role, gathered(m))};
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

/// The kernel `name` reads `read` bytes and writes the matrix, plain or cast. If the kernel cannot cast, because the
/// scale follows from the whole matrix, further kernels do.
void ModuleOperations::make(std::string_view name, const Matrix& m, std::uint64_t read, bool keep_plain,
                            Purpose purpose, std::uint64_t written_more) {
  const std::uint64_t whole = plain(m.rows * m.cols);
  if (!cast_site()) return kernel(name, m.rows, m.cols, dims_.compute, dims_.compute, read, whole + written_more);
  const bool recomputed = purpose == Purpose::recomputed;
  const bool at_once = recipe_.per_tensor() && (recomputed || !scaled_by_itself());
  if (!at_once) {
    kernel(name, m.rows, m.cols, dims_.compute, dims_.compute, read, whole + written_more);
    return cast_known(m, purpose);
  }
  kernel(name, m.rows, m.cols, dims_.compute, recipe_.dtype(m.role), read,
         cast_bytes(m, purpose) + (keep_plain && !recomputed ? whole : 0) + written_more);
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

/// The cast of a matrix with one scale that is known.
void ModuleOperations::quantize(const Matrix& m, Purpose purpose) {
  const bool transposes = purpose != Purpose::forward_pass && format(m, true).transposed;
  kernel(transposes ? "quantize_transpose" : "quantize", m.rows, m.cols, dims_.compute, recipe_.dtype(m.role),
         plain(m.rows * m.cols), cast_bytes(m, purpose));
}

bool ModuleOperations::scaled_by_itself() const { return !recipe_.delayed() || options_.first_step; }

// Collectives of the tensor group.

Operation::Collective ModuleOperations::gather_call(const Format& format, std::int64_t rows, std::int64_t cols) const {
  const std::int64_t elements = rows * cols * dims_.tensor;
  const bool blocks = format.scaling != tensor::Scaling::none && format.scaling != tensor::Scaling::tensor;
  Operation::Collective c{profile::Collective::all_gather, Group::tensor, dims_.tensor};
  c.parts.push_back({format.dtype, static_cast<std::uint64_t>(elements) * tensor::size_of(format.dtype)});
  if (blocks)
    c.parts.push_back(
        {tensor::scale_dtype(format.scaling), static_cast<std::uint64_t>(fp8::scale_bytes(format.scaling, elements))});
  c.items = blocks ? 2 : 1;
  return c;
}

Operation::Collective ModuleOperations::reduce_scatter_call() const {
  Operation::Collective c{profile::Collective::reduce_scatter, Group::tensor, dims_.tensor};
  c.parts.push_back({dims_.compute, plain(dims_.tokens() * dims_.hidden)});
  return c;
}

std::optional<int> ModuleOperations::issue(const Operation::Collective& collective,
                                           std::optional<Stream> beside_products) {
  const auto index = out_.collective(collective, beside_products.value_or(Stream::compute));
  return beside_products ? index : std::nullopt;
}

std::optional<int> ModuleOperations::gather(const Format& format, std::int64_t rows, std::int64_t cols,
                                            bool beside_products) {
  return issue(gather_call(format, rows, cols), beside_products ? std::optional(Stream::gather) : std::nullopt);
}

std::optional<int> ModuleOperations::gather_by_parts(const TensorExchange& exchange, const Format& format,
                                                     std::int64_t rows, std::int64_t cols) {
  Operation::Collective c = gather_call(format, rows, cols);
  c.by_parts = exchange.hidden();
  c.ring = exchange.route() == comm::Route::ring;
  return issue(c, exchange.hidden() ? std::optional(Stream::gather) : std::nullopt);
}

std::optional<int> ModuleOperations::reduce_scatter(bool beside_products) {
  return issue(reduce_scatter_call(), beside_products ? std::optional(Stream::reduce) : std::nullopt);
}

std::optional<int> ModuleOperations::reduce_scatter_by_parts(const TensorExchange& exchange) {
  Operation::Collective c = reduce_scatter_call();
  c.by_parts = true;
  c.ring = exchange.route() == comm::Route::ring;
  return issue(c, Stream::reduce);
}

void ModuleOperations::reduce(std::uint64_t bytes, DType dtype) {
  Operation::Collective c{profile::Collective::all_reduce, Group::tensor, dims_.tensor};
  c.parts.push_back({dtype, bytes});
  out_.collective(c, Stream::compute);
}

/// The products beside a gather by parts on rank 0, of `tokens` tokens of each of the first `ranks` ranks. With splits,
/// ranks in the middle of the group may compute one more (for_each_arrival).
void ModuleOperations::by_arrival(const TensorExchange& gather, std::int64_t ranks, std::int64_t tokens,
                                  const std::function<void(std::int64_t tokens)>& product) const {
  for_each_arrival(0, dims_.tensor, gather.splits, static_cast<int>(ranks),
                   [&](int, int count) { product(count * tokens); });
}

// Linears.

/// All tokens in one product, or on hosts those of each rank of the tensor group in a product of its own.
void ModuleOperations::fprop(Linear linear, bool bias, bool residual) {
  const int products = options_.device ? 1 : dims_.tensor;
  for (int i = 0; i < products; ++i) fprop_of_tokens(linear, dims_.tokens() / products, bias, residual);
}

void ModuleOperations::fprop_of_tokens(Linear linear, std::int64_t tokens, bool bias, bool residual) {
  const Sizes s = sizes(linear);
  out_.product({Product::Kind::fprop, tokens, s.out, s.in, format(input(linear), false), weight(false), dims_.compute,
                false, bias, residual});
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

ColumnExchanges ModuleOperations::column(Linear linear) const {
  return linear == Linear::qkv ? dims_.overlap.qkv() : dims_.overlap.fc1();
}

/// A gather by parts is waited for part by part; the list has one wait, behind the products.
void ModuleOperations::column_forward(Linear linear) {
  const Matrix x = input(linear);
  const TensorExchange exchange = column(linear).forward;
  const auto gathering = gather_by_parts(exchange, format(x, false), x.rows, x.cols);
  if (!exchange.hidden()) return fprop(linear, dims_.biases(), false);
  by_arrival(exchange, dims_.tensor, dims_.tokens_local(),
             [&](std::int64_t tokens) { fprop_of_tokens(linear, tokens, dims_.biases(), false); });
  out_.wait(gathering);
}

void ModuleOperations::column_backward(Linear linear) {
  bias_gradient(linear);
  const Matrix x = input(linear);
  const ColumnExchanges exchanges = column(linear);
  const auto gathering = gather(format(x, true), x.rows, x.cols, exchanges.gather.hidden());
  if (!exchanges.bulk()) wgrad(linear);
  dgrad(linear);
  const auto scattering = reduce_scatter(exchanges.scatter.hidden());
  if (exchanges.bulk()) {
    out_.wait(gathering);
    wgrad(linear);
  }
  out_.wait(scattering);
}

void ModuleOperations::row_forward(Linear linear) {
  if (options_.device && dims_.tensor == 1) return fprop(linear, dims_.biases(), true);
  const bool hidden = row(linear).forward.hidden();
  if (hidden) {
    pipeline(linear);
  } else {
    fprop(linear, false, false);
    reduce_scatter();
  }
  if (!dims_.biases() && dims_.tensor > 1) {  // the collective adds the residual, or the next norm adds all
    const int summands = dims_.tensor + 1;
    summands_ = hidden && options_.device && summands <= tensor::Summands::kMost ? summands : 1;
    return;
  }
  const std::uint64_t y = plain(dims_.tokens_local() * dims_.hidden);
  kernel("residual_add", dims_.tokens_local(), dims_.hidden, dims_.compute, dims_.compute,
         2 * y + (dims_.biases() ? plain(dims_.hidden) : 0), y);
}

RowExchanges ModuleOperations::row(Linear linear) const {
  return linear == Linear::proj ? dims_.overlap.proj() : dims_.overlap.fc2();
}

/// The reduce-scatter begins when the first part is there.
void ModuleOperations::pipeline(Linear linear) {
  std::optional<int> scattering;
  const TensorExchange exchange = row(linear).forward;
  for (int k = 1; k <= dims_.tensor; ++k) {
    for_each_chunk_of_rank(dims_.tokens_local(), k == dims_.tensor ? 1 : exchange.chunks,
                           [&](std::int64_t, std::int64_t tokens) {
                             fprop_of_tokens(linear, tokens, false, false);
                             if (!scattering) scattering = reduce_scatter_by_parts(exchange);
                           });
  }
  out_.wait(scattering);
}

/// The constructor of RowBackward. The wait for the gather is in row_gathered_.
void ModuleOperations::row_begin(Linear linear) {
  const Matrix dy = output_gradient(linear);
  if (cast_site()) cast(dy, Purpose::both_passes);
  row_gathered_[linear] = gather(format(dy, false), dy.rows, dy.cols, row(linear).gather.hidden());
}

void ModuleOperations::row_dgrad(Linear linear) {
  bias_gradient(linear);
  out_.wait(std::exchange(row_gathered_[linear], {}));
  dgrad(linear);
  if (row(linear).gather.hidden()) gather_for_row_wgrad(linear);
}

void ModuleOperations::row_wgrad(Linear linear) {
  if (!row(linear).gather.hidden()) gather_for_row_wgrad(linear);
  out_.wait(std::exchange(row_gathered_[linear], {}));
  wgrad(linear);
}

/// If wgrad reads another copy of dy than dgrad.
void ModuleOperations::gather_for_row_wgrad(Linear linear) {
  const Matrix dy = output_gradient(linear);
  if (two_copies(dy)) row_gathered_[linear] = gather(format(dy, true), dy.rows, dy.cols, row(linear).gather.hidden());
}

}  // namespace shard8::model

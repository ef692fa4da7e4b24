// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/linear.hpp"

#include "kernels/elementwise.hpp"
#include "model/products.hpp"
#include "model/sequence_parallel.hpp"

namespace shard8::model {

using fp8::Operands;
using operation::Kernel;
using tensor::Operand;
using tensor::Tensor;

namespace {

void fprop(const Context& context, const Tensor& y, const Operand& x, const Weight& w, const Tensor& bias,
           const Tensor& residual = {}) {
  fprop(context, y, x, w.copy_for(fsdp::Pass::forward), bias, residual);
}

void dgrad(const Context& context, const Tensor& dx, const Operand& dy, const Weight& w) {
  dgrad(context, dx, dy, w.copy_for(fsdp::Pass::backward));
}

void wgrad(const Context& context, const AffineGradient& dw, const Operand& dy, const Operand& x) {
  wgrad(context, dw.sum.weight, dy, x, dw.accumulate);
}

void bias_gradient(const Context& context, const AffineGradient& dw, const Tensor& dy) {
  if (dw.sum.bias.empty()) return;
  const Tensor& sum = dw.sum.bias;
  context.issue(Kernel{"bias_gradient", dy.rows(), dy.cols(), dy.dtype, sum.dtype}.reads(dy, sum).writes(sum),
                [&](const tensor::Exec& exec) { kernels::bias_gradient(exec, sum, dy, context.workspace.memory); });
}

/// Whether the tensor group will gather a matrix with these tokens.
bool gathered(const Context& context, fp8::Quantizer::Tokens tokens) {
  return tokens == fp8::Quantizer::Tokens::part && context.tensor_group.size() > 1;
}

Gathering start_gather(const Context& context, const TensorExchange& gather, const LinearScratch& scratch,
                       const Operand& local) {
  return start_gather_tokens(context, gather.name, scratch.gathered, scratch.gathered_cast, local, gather.hidden());
}

/// y (tokens, n) = x·wᵀ + bias of all tokens. Hosts compute it rank by rank, so that its bits are those of products
/// that do not wait for all ranks: a library may compute a product of few rows in another way than one of many.
void fprop_of_ranks(const Context& context, const Tensor& y, const Operand& x, const LinearWeights& w) {
  const int ranks = context.tensor_group.size();
  if (context.device() || ranks == 1) return fprop(context, y, x, w.weight, w.bias);
  const std::int64_t tokens = y.rows() / ranks;
  for (int rank = 0; rank < ranks; ++rank)
    fprop(context, y.slice(rank * tokens, tokens), x.slice(rank * tokens, tokens), w.weight, w.bias);
}

/// local (T_local, n): this rank's tokens of the sum of x·wᵀ over the tensor group, plus `addend` unless it is empty.
/// `may_pend`: the returned sum may be pending. `partial` (tokens, n) is scratch.
tensor::PendingSum fprop_and_scatter(const Context& context, const Tensor& local, const Tensor& partial,
                                     const Operand& x, const LinearWeights& w, const Tensor& addend,
                                     const TensorExchange& scatter, bool may_pend) {
  if (!scatter.hidden()) {
    fprop_of_ranks(context, partial, x, {w.weight, {}});
    reduce_scatter_tokens(context, scatter.name, local, partial, addend);
    return local;
  }
  ScatteringByParts scattering(context, scatter, local, partial, addend);
  scattering.in_order_of_departure(context, scatter.chunks, [&](std::int64_t first, std::int64_t count) {
    fprop(context, scattering.whole().slice(first, count), x.slice(first, count), w.weight, {});
  });
  if (may_pend) return scattering.finish_pending(context);
  scattering.finish(context);
  return local;
}

}  // namespace

CastScratch CastScratch::allocate(const fp8::Recipe& recipe, fp8::Role role, std::int64_t elements,
                                  tensor::Arena& arena) {
  CastScratch scratch;
  if (!recipe.on()) return scratch;
  scratch.by_rows = fp8::CastBuffer(arena, elements, recipe.by_rows(role));
  scratch.by_columns = recipe.two_copies(role) || recipe.transposed(role, false)
                           ? fp8::CastBuffer(arena, elements, recipe.by_columns(role))
                           : scratch.by_rows;
  return scratch;
}

fp8::Operands CastScratch::view(const fp8::Recipe& recipe, fp8::Role role, std::int64_t rows, std::int64_t cols,
                                bool gathered) const {
  const tensor::DType dtype = recipe.dtype(role);
  if (recipe.per_tensor()) {
    if (!recipe.transposed(role, gathered))
      return fp8::Operands(by_columns.view(rows, cols, dtype, recipe.by_rows(role)));
    // The two copies have one scale. It is stored with the copy by columns, which may be kept longer.
    const auto kept = by_columns.view_transposed(rows, cols, dtype, recipe.by_columns(role));
    auto read = by_rows.view(rows, cols, dtype, recipe.by_rows(role));
    read.scale_inv = kept.scale_inv;
    return {read, kept};
  }
  return {by_rows.view(rows, cols, recipe.dtype(role), recipe.by_rows(role)),
          by_columns.view(rows, cols, recipe.dtype(role), recipe.by_columns(role))};
}

LinearScratch LinearScratch::allocate_exchanged(const Dims& d, const fp8::Recipe& recipe, tensor::Arena& arena) {
  LinearScratch s;
  if (d.tensor == 1) {
    if (!d.device) s.gathered = arena.allocate({d.tokens(), d.hidden}, d.compute);
    return s;
  }
  s = s.gathering_elsewhere(d, recipe, arena);
  s.partial = arena.allocate({d.tokens(), d.hidden}, d.compute);
  return s;
}

LinearScratch LinearScratch::gathering_elsewhere(const Dims& d, const fp8::Recipe& recipe, tensor::Arena& arena) const {
  LinearScratch s = *this;
  s.gathered = arena.allocate({d.tokens(), d.hidden}, d.compute);
  if (recipe.on()) s.gathered_cast = fp8::CastBuffer(arena, d.tokens() * d.hidden, recipe.by_rows(fp8::Role::input));
  return s;
}

tensor::Operand LinearScratch::place_of_cast(const fp8::Recipe& recipe, fp8::Role role, std::int64_t rows,
                                             std::int64_t cols, int rank, int ranks) const {
  return gathered_cast.view(rows * ranks, cols, recipe.dtype(role), recipe.by_rows(role)).slice(rank * rows, rows);
}

OutputGradient output_gradient(const Context& context, const fp8::Site& site, const Tensor& dy,
                               fp8::Quantizer::Tokens tokens, const LinearScratch& scratch) {
  if (!site.on()) return dy;
  const fp8::Role role = fp8::Role::output_gradient;
  const fp8::Recipe& recipe = context.quantizer->recipe();
  const bool part = gathered(context, tokens);
  const int ranks = context.tensor_group.size();
  const Operands cast =
      part && LinearScratch::casts_in_place(recipe, ranks)
          ? Operands(scratch.place_of_cast(recipe, role, dy.rows(), dy.cols(), context.tensor_group.rank(), ranks))
          : scratch.gradient.view(recipe, role, dy.rows(), dy.cols(), part);
  context.quantizer->cast(site.with(role), cast, dy, tokens);
  return {cast, dy};
}

void column_linear_forward(const Context& context, const Tensor& y, const Operands& x, const LinearWeights& w,
                           const LinearScratch& scratch, const TensorExchange& gather) {
  if (!gather.hidden())
    return fprop_of_ranks(context, y, start_gather(context, gather, scratch, x.by_rows).wait(context), w);
  GatheringByParts gathering(context, gather, scratch.gathered, scratch.gathered_cast, x.by_rows);
  const std::int64_t tokens = x.by_rows.rows();
  gathering.in_order_of_arrival(context, gather.splits, context.tensor_group.size(),
                                [&](int rank, const Operand& some) {
                                  fprop(context, y.slice(rank * tokens, some.rows()), some, w.weight, w.bias);
                                });
  gathering.finish(context);
}

tensor::Summands column_linear_backward(const Context& context, const Tensor& dx, const AffineGradient& dw,
                                        const OutputGradient& dy, const Operands& x, const LinearWeights& w,
                                        const LinearScratch& scratch, const ColumnExchanges& exchanges) {
  bias_gradient(context, dw, dy.plain);
  const Tensor partial = partial_of(context, scratch.partial, dx);
  Gathering gathering = start_gather(context, exchanges.gather, scratch, x.by_columns);
  if (!exchanges.gather.hidden()) gathering.wait(context);
  if (!exchanges.bulk()) wgrad(context, dw, dy.copies.by_columns, gathering.wait(context));
  dgrad(context, partial, dy.copies.by_rows, w.weight);
  Scattering scattering = start_scatter_summands(context, exchanges.scatter, dx, partial);
  if (!exchanges.scatter.hidden()) scattering.wait(context);
  if (exchanges.bulk()) wgrad(context, dw, dy.copies.by_columns, gathering.wait(context));
  return scattering.wait(context);
}

tensor::PendingSum row_linear_forward(const Context& context, const Tensor& y, const Operands& x,
                                      const LinearWeights& w, const Tensor& residual, const LinearScratch& scratch,
                                      const TensorExchange& scatter) {
  const bool one_rank = context.tensor_group.size() == 1;
  if (context.device() && one_rank) {
    fprop(context, y, x.by_rows, w.weight, w.bias, residual);
    return y;
  }
  if (w.bias.empty() && !one_rank)
    return fprop_and_scatter(context, y, partial_of(context, scratch.partial, y), x.by_rows, w, residual, scatter,
                             true);
  const Tensor sum = scratch.gathered.reshaped({y.rows(), y.cols()});
  fprop_and_scatter(context, sum, partial_of(context, scratch.partial, sum), x.by_rows, w, {}, scatter, false);
  context.issue(Kernel{"residual_add", y.rows(), y.cols(), sum.dtype, y.dtype}.reads(residual, sum, w.bias).writes(y),
                [&](const tensor::Exec& exec) { kernels::residual_add(exec, y, residual, sum, w.bias); });
  return y;
}

RowBackward::RowBackward(const Context& context, const OutputGradient& dy, const LinearScratch& scratch,
                         const TensorExchange& gather)
    : dy_(dy),
      scratch_(&scratch),
      gather_(gather),
      gathering_(start_gather(context, gather, scratch, dy.copies.by_rows)) {
  if (!gather_.hidden()) gathering_.wait(context);
}

void RowBackward::dgrad(const Context& context, const Tensor& dx, const AffineGradient& dw, const LinearWeights& w) {
  bias_gradient(context, dw, dy_.plain);
  model::dgrad(context, dx, gathering_.wait(context), w.weight.copy_for(fsdp::Pass::backward));
  if (!dy_.copies.one() && gather_.hidden())
    gathering_ = start_gather(context, gather_, *scratch_, dy_.copies.by_columns);
}

void RowBackward::wgrad(const Context& context, const AffineGradient& dw, const Operands& x) {
  if (!dy_.copies.one() && !gather_.hidden())
    gathering_ = start_gather(context, gather_, *scratch_, dy_.copies.by_columns);
  model::wgrad(context, dw.sum.weight, gathering_.wait(context), x.by_columns, dw.accumulate);
}

}  // namespace shard8::model

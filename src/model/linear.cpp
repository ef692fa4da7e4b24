// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/linear.hpp"

#include "kernels/elementwise.hpp"

namespace shard8::model {

using fp8::Operands;
using fp8::Role;
using operation::Kernel;
using Purpose = fp8::Quantizer::Purpose;
using tensor::Operand;
using tensor::Tensor;

namespace {

void wgrad(const Context& context, const AffineGradient& dw, const Operand& dy, const Operand& x) {
  wgrad(context, dw.sum.weight, dy, x, dw.accumulate);
}

void bias_gradient(const Context& context, const AffineGradient& dw, const Tensor& dy) {
  if (dw.sum.bias.empty()) return;
  const Tensor& sum = dw.sum.bias;
  context.issue(Kernel{"bias_gradient", dy.rows(), dy.cols(), dy.dtype, sum.dtype}.reads(dy, sum).writes(sum),
                [&](const tensor::Exec& exec) { kernels::bias_gradient(exec, sum, dy, context.workspace.memory); });
}

/// Holds the memory into which `local` is gathered. A plain matrix lies in scratch.gathered, one in FP8 in
/// gathered_cast; if it is gathered transposed, `gathered` is scratch.
Lease hold_gathered(const Context& context, const TensorExchange& gather, const LinearScratch& scratch,
                    const Operand& local) {
  if (context.tensor_group.size() == 1) return {};
  const bool plain = local.scaling == tensor::Scaling::none;
  return context.lease(name_of(gather.name), {plain || local.transposed ? scratch.gathered : Tensor{},
                                              plain ? Tensor{} : scratch.gathered_cast.memory()});
}

Gathering start_gather(const Context& context, const TensorExchange& gather, const LinearScratch& scratch,
                       const Operand& local, Lease memory) {
  return start_gather_tokens(context, gather.name, scratch.gathered, scratch.gathered_cast, local, gather.hidden(),
                             std::move(memory));
}
Gathering start_gather(const Context& context, const TensorExchange& gather, const LinearScratch& scratch,
                       const Operand& local) {
  return start_gather(context, gather, scratch, local, hold_gathered(context, gather, scratch, local));
}

/// y (tokens, n) = x·wᵀ + bias of all tokens. Hosts compute it rank by rank, so that its bits are those of products
/// that do not wait for all ranks: a library may compute a product of few rows in another way than one of many.
void fprop_of_ranks(const Context& context, const Tensor& y, const Operand& x, const Weight& w, const Tensor& bias) {
  const int ranks = context.tensor_group.size();
  if (context.device() || ranks == 1) return fprop(context, y, x, w, bias);
  const std::int64_t tokens = y.rows() / ranks;
  for (int rank = 0; rank < ranks; ++rank)
    fprop(context, y.slice(rank * tokens, tokens), x.slice(rank * tokens, tokens), w, bias);
}

/// local (T_local, n): this rank's tokens of the sum of x·wᵀ over the tensor group, plus `addend` unless it is empty.
/// `may_stay_partial`: the result may be returned as partial sums.
HeldSum fprop_and_scatter(const Context& context, const Tensor& local, const Operand& x, const LinearWeights& w,
                          const Tensor& addend, const LinearScratch& scratch, const TensorExchange& scatter,
                          bool may_stay_partial) {
  Partial partial(context, scatter.name, scratch.partial, local);
  if (!scatter.hidden()) {
    fprop_of_ranks(context, partial.matrix, x, w.weight, {});
    reduce_scatter_tokens(context, scatter.name, local, std::move(partial), addend);
    return local;
  }
  ScatteringByParts scattering(context, scatter, local, std::move(partial), addend);
  scattering.in_order_of_departure(context, scatter.chunks, [&](std::int64_t first, std::int64_t count) {
    fprop(context, scattering.whole().slice(first, count), x.slice(first, count), w.weight, {});
  });
  if (may_stay_partial) return std::move(scattering).finish_partial_sums(context);
  scattering.finish(context);
  return local;
}

}  // namespace

CastScratch CastScratch::allocate(const fp8::Recipe& recipe, fp8::Role role, std::int64_t elements,
                                  tensor::Arena& arena) {
  CastScratch scratch;
  if (!recipe.on()) return scratch;
  scratch.rowwise = fp8::CastBuffer(arena, elements, recipe.rowwise(role));
  scratch.columnwise = recipe.two_copies(role) || recipe.transposed(role, false)
                           ? fp8::CastBuffer(arena, elements, recipe.columnwise(role))
                           : scratch.rowwise;
  return scratch;
}

fp8::Operands CastScratch::view(const fp8::Recipe& recipe, fp8::Role role, std::int64_t rows, std::int64_t cols,
                                bool gathered) const {
  const tensor::DType dtype = recipe.dtype(role);
  if (recipe.per_tensor()) {
    if (!recipe.transposed(role, gathered))
      return fp8::Operands(columnwise.view(rows, cols, dtype, recipe.rowwise(role)));
    // The two copies have one scale. The scale is stored with the columnwise copy, which may be kept longer.
    const auto kept = columnwise.view_transposed(rows, cols, dtype, recipe.columnwise(role));
    auto read = rowwise.view(rows, cols, dtype, recipe.rowwise(role));
    read.scale_inv = kept.scale_inv;
    return {read, kept};
  }
  const tensor::Scaling scaling = recipe.columnwise(role);
  return {rowwise.view(rows, cols, dtype, recipe.rowwise(role)),
          recipe.transposed(role, gathered) ? columnwise.view_transposed(rows, cols, dtype, scaling)
                                            : columnwise.view(rows, cols, dtype, scaling)};
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
  if (recipe.on()) s.gathered_cast = fp8::CastBuffer(arena, d.tokens() * d.hidden, recipe.rowwise(Role::input));
  return s;
}

tensor::Operand LinearScratch::place_of_cast(const fp8::Recipe& recipe, fp8::Role role, std::int64_t rows,
                                             std::int64_t cols, int rank, int ranks) const {
  return gathered_cast.view(rows * ranks, cols, recipe.dtype(role), recipe.rowwise(role)).slice(rank * rows, rows);
}

Lease LinearInput::hold(const Context& context, std::string_view what, fsdp::Pass pass) const {
  if (pass == fsdp::Pass::forward) return context.lease(what, {plain, copies.rowwise.data, copies.columnwise.data});
  // With one scale for a matrix, the kernel that recomputes the matrix writes only the cast.
  const bool writes_plain = recomputed && copies.columnwise.scaling != tensor::Scaling::tensor;
  return context.lease(what, {copies.columnwise.data, writes_plain ? plain : Tensor{}});
}

OutputGradient::OutputGradient(const Context& context, const Tensor& dy, const CastScratch& scratch, bool gathered)
    : copies(scratch.view(context.quantizer->recipe(), Role::output_gradient, dy.rows(), dy.cols(), gathered)),
      plain(dy),
      memory(context.lease("the gradient of an output in FP8", {copies.rowwise.data, copies.columnwise.data})) {}

OutputGradient output_gradient(const Context& context, const fp8::Site& site, const Tensor& dy,
                               const LinearScratch& scratch) {
  if (!site.on()) return dy;
  OutputGradient gradient(context, dy, scratch.gradient, false);
  context.quantizer->cast(site.with(Role::output_gradient), gradient.copies, dy, fp8::Quantizer::Tokens::all);
  return gradient;
}

void column_linear_forward(const Context& context, const Tensor& y, const Operands& x, const LinearWeights& w,
                           const LinearScratch& scratch, const TensorExchange& gather) {
  if (!gather.hidden()) {
    Gathering gathering = start_gather(context, gather, scratch, x.rowwise);
    return fprop_of_ranks(context, y, gathering.wait(context), w.weight, w.bias);
  }
  GatheringByParts gathering(context, gather, scratch.gathered, scratch.gathered_cast, x.rowwise,
                             hold_gathered(context, gather, scratch, x.rowwise));
  const std::int64_t tokens = x.rowwise.rows();
  gathering.in_order_of_arrival(context, gather.splits, context.tensor_group.size(),
                                [&](int rank, const Operand& some) {
                                  fprop(context, y.slice(rank * tokens, some.rows()), some, w.weight, w.bias);
                                });
  gathering.finish(context);
}

Scattering column_linear_backward(const Context& context, const Tensor& dx, const AffineGradient& dw,
                                  const OutputGradient& dy, const Operands& x, const LinearWeights& w,
                                  const LinearScratch& scratch, const ColumnExchanges& exchanges) {
  bias_gradient(context, dw, dy.plain);
  Partial partial(context, exchanges.scatter.name, scratch.partial, dx);
  Gathering gathering = start_gather(context, exchanges.gather, scratch, x.columnwise);
  if (!exchanges.gather.hidden()) gathering.wait(context);
  if (!exchanges.bulk()) wgrad(context, dw, dy.copies.columnwise, gathering.wait(context));
  dgrad(context, partial.matrix, dy.copies.rowwise, w.weight);
  Scattering scattering = start_scatter_partial_sums(context, exchanges.scatter, dx, std::move(partial));
  if (!exchanges.scatter.hidden()) scattering.wait(context);
  if (exchanges.bulk()) wgrad(context, dw, dy.copies.columnwise, gathering.wait(context));
  scattering.wait(context);
  return scattering;
}

HeldSum row_linear_forward(const Context& context, const Tensor& y, const Operands& x, const LinearWeights& w,
                           const Tensor& residual, const LinearScratch& scratch, const TensorExchange& scatter) {
  const bool one_rank = context.tensor_group.size() == 1;
  if (context.device() && one_rank) {
    fprop(context, y, x.rowwise, w.weight, w.bias, residual);
    return y;
  }
  if (w.bias.empty() && !one_rank) return fprop_and_scatter(context, y, x.rowwise, w, residual, scratch, scatter, true);
  const Tensor sum = scratch.gathered.reshaped({y.rows(), y.cols()});
  const Lease memory = context.lease(name_of(scatter.name), {sum});
  fprop_and_scatter(context, sum, x.rowwise, w, {}, scratch, scatter, false);
  context.issue(Kernel{"residual_add", y.rows(), y.cols(), sum.dtype, y.dtype}.reads(residual, sum, w.bias).writes(y),
                [&](const tensor::Exec& exec) { kernels::residual_add(exec, y, residual, sum, w.bias); });
  return y;
}

RowBackward::RowBackward(const Context& context, const LinearInput& x, const Tensor& dy, const LinearScratch& scratch,
                         const TensorExchange& gather)
    : x_(x.copies.columnwise),
      input_(x.hold(context, "the input of a row-parallel linear", fsdp::Pass::backward)),
      dy_(dy),
      scratch_(&scratch),
      gather_(gather) {
  const int ranks = context.tensor_group.size();
  const bool in_place = x.site.on() && LinearScratch::casts_in_place(context.quantizer->recipe(), ranks);
  Lease gathered;
  if (in_place) {
    gathered = context.lease(name_of(gather.name), {scratch.gathered_cast.memory()});
    dy_.copies = Operands(scratch.place_of_cast(context.quantizer->recipe(), Role::output_gradient, dy.rows(),
                                                dy.cols(), context.tensor_group.rank(), ranks));
  } else if (x.site.on()) {
    dy_ = OutputGradient(context, dy, scratch.gradient, ranks > 1);
  }
  if (x.site.on())
    context.quantizer->cast(x.site.with(Role::output_gradient), dy_.copies, dy, fp8::Quantizer::Tokens::part);
  const Operand& local = dy_.copies.rowwise;
  if (!in_place) gathered = hold_gathered(context, gather, scratch, local);
  gathering_.emplace(start_gather(context, gather, scratch, local, std::move(gathered)));
  if (!gather_.hidden()) gathering_->wait(context);
}

RowWgrad RowBackward::dgrad(const Context& context, const Tensor& dx, const AffineGradient& dw,
                            const LinearWeights& w) && {
  bias_gradient(context, dw, dy_.plain);
  model::dgrad(context, dx, gathering_->wait(context), w.weight);
  if (!dy_.copies.one() && gather_.hidden()) gather_columnwise(context);
  return RowWgrad(std::move(*this));
}

/// Gathers the columnwise copy of dy into the memory of the rowwise copy.
void RowBackward::gather_columnwise(const Context& context) {
  gathering_.emplace(
      start_gather(context, gather_, *scratch_, dy_.copies.columnwise, std::move(*gathering_).release()));
}

void RowWgrad::wgrad(const Context& context, const AffineGradient& dw) && {
  RowBackward last = std::move(begun_);  // so that its memory is free when this returns
  if (!last.dy_.copies.one() && !last.gather_.hidden()) last.gather_columnwise(context);
  model::wgrad(context, dw.sum.weight, last.gathering_->wait(context), last.x_, dw.accumulate);
}

void LayernormLinear::normalise(const Context& context, const Saved& saved, const tensor::SumOfPartials& x,
                                const Affine& w, Purpose purpose) const {
  const auto make = [&](const kernels::Outputs& y) {
    if (purpose == Purpose::recomputed)
      norm.recompute(context, y, saved.statistics, x.sum, w);
    else
      norm.forward(context, y, saved.statistics, x, w);
  };
  const LinearInput& to = saved.input;
  if (!to.site.on()) return make(to.plain);
  context.quantizer->produce_and_cast(to.site, to.copies, to.plain, false, fp8::Quantizer::Tokens::part, make, purpose);
}

void LayernormLinear::forward(const Context& context, const Tensor& y, const Saved& saved, HeldSum x, const Weights& w,
                              const LinearScratch& scratch) const {
  const Lease input = saved.input.hold(context, "the input of a column-parallel linear", fsdp::Pass::forward);
  normalise(context, saved, x.sum, w.norm, saved.input.purpose());
  x.read();
  column_linear_forward(context, y, saved.input.copies, w.linear, scratch, exchanges.forward);
}

void LayernormLinear::backward(const Context& context, const Tensor& dx, const Gradients& dw, const OutputGradient& dy,
                               const Tensor& x, const Saved& saved, const Weights& w, const Tensor& dnormed,
                               const LinearScratch& scratch) const {
  const Lease input = saved.input.hold(context, "the input of a column-parallel linear", fsdp::Pass::backward);
  const Lease gradient = context.lease("the gradient of a norm's output", {dnormed});
  if (saved.input.recomputed) {
    const operation::Recomputing again(context.executor);
    normalise(context, saved, x, w.norm, Purpose::recomputed);
  }
  Scattering sum =
      column_linear_backward(context, dnormed, dw.linear, dy, saved.input.copies, w.linear, scratch, exchanges);
  norm.backward(context, dx, dw.norm, sum.wait(context), x, saved.statistics, w.norm, dx);
}

}  // namespace shard8::model

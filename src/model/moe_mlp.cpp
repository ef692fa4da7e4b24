// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/moe_mlp.hpp"

#include <algorithm>

#include "kernels/elementwise.hpp"
#include "tensor/arena.hpp"

namespace shard8::model {

using fp8::Role;
using kernels::MoeRouting;
using operation::Kernel;
using operation::Linear;
using profile::Collective;
using profile::Exchange;
using tensor::DType;
using tensor::Operand;
using tensor::Tensor;

MoeMlp::MoeMlp(const Dims& dims, int tensor_rank, int group_rank)
    : norm_{dims.arch, dims.norm_eps},
      d_(dims),
      first_token_(tensor_rank * dims.tokens_local()),
      group_rank_(group_rank),
      exchange_(dims, group_rank) {}

MoeMlp::Rows MoeMlp::Rows::allocate(const Dims& d, tensor::Arena& arena, tensor::Arena& received) {
  const std::int64_t rows = d.experts.round_rows(d.tokens_local());
  Rows r;
  r.weights = received.allocate({rows}, DType::fp32);
  r.preactivation = arena.allocate({rows, 2 * d.experts.ffn}, d.compute);
  return r;
}

namespace {

/// Allocates what products read of a round's rows of `width`: the matrix, or in FP8 its cast.
void allocate_read(Tensor& plain, fp8::CastBuffer& cast, std::int64_t width, const Dims& d, const fp8::Recipe& recipe,
                   bool in_fp8, tensor::Arena& arena) {
  const std::int64_t rows = d.experts.round_rows(d.tokens_local());
  if (in_fp8)
    cast = fp8::CastBuffer(arena, rows * width, recipe.columnwise(Role::input));
  else
    plain = arena.allocate({rows, width}, d.compute);
}

/// (1) fp32: the inverse scale of a matrix with one scale.
Tensor scale_inv_of(const fp8::CastBuffer& cast) {
  return cast.view(0, 0, DType::e4m3, tensor::Scaling::tensor).scale_inv;
}

}  // namespace

void MoeMlp::Rows::allocate_input(const Dims& d, const fp8::Recipe& recipe, bool in_fp8, tensor::Arena& arena,
                                  tensor::Arena& received) {
  const bool arrives = !in_fp8 || d.experts.sends_fp8;
  allocate_read(input, input_cast, d.hidden, d, recipe, in_fp8, arrives ? received : arena);
}

void MoeMlp::Rows::allocate_activation(const Dims& d, const fp8::Recipe& recipe, bool in_fp8, tensor::Arena& arena) {
  allocate_read(activation, activation_cast, d.experts.ffn, d, recipe, in_fp8, arena);
}

MoeMlp::Saved MoeMlp::Saved::allocate(const Dims& d, tensor::Arena& arena) {
  const std::int64_t tokens = d.tokens_local(), experts = d.experts.experts, per_token = d.experts.per_token;
  Saved s;
  s.statistics = NormStatistics::allocate(d.arch, tokens, arena);
  s.normed = arena.allocate({tokens, d.hidden}, d.compute);
  s.routing.probabilities = arena.allocate({tokens, experts}, DType::fp32);
  s.routing.chosen = arena.allocate({tokens, per_token}, DType::i32);
  s.routing.weights = arena.allocate({tokens, per_token}, DType::fp32);
  s.position = arena.allocate({tokens, per_token}, DType::i32);
  s.source = arena.allocate({tokens * per_token}, DType::i32);
  s.counts = arena.allocate({d.experts.ranks, experts}, DType::i32);
  if (d.experts.balance != 0) s.sequence_sums = arena.allocate({2, d.batch, experts}, DType::fp32);
  return s;
}

MoeMlp::Scratch MoeMlp::Scratch::allocate(const Dims& d, bool recomputes_activation, const fp8::Recipe& recipe,
                                          tensor::Arena& arena, tensor::Arena& pushed) {
  tensor::Arena& received = d.experts.pushes ? pushed : arena;
  const std::int64_t tokens = d.tokens_local();
  const std::int64_t rows = d.experts.round_rows(tokens);
  const std::size_t begin = arena.mark();
  Scratch s;
  s.logits = arena.allocate({tokens, d.experts.experts}, DType::fp32);
  s.dlogits = arena.allocate({tokens, d.experts.experts}, d.compute);
  s.dweights = arena.allocate({tokens, d.experts.per_token}, DType::fp32);
  s.dnormed = arena.allocate({tokens, d.hidden}, d.compute);
  s.exchange = ExpertExchange::Scratch::allocate(d, arena, pushed);
  const bool in_fp8 = recipe.expert_layers() > 0, plain = recipe.expert_layers() < d.experts.layers;
  const bool sends_fp8 = in_fp8 && d.experts.sends_fp8;
  if (plain || !sends_fp8) s.doutput = received.allocate({rows, d.hidden}, d.compute);
  s.dactivation = arena.allocate({rows, d.experts.ffn}, d.compute);
  if (recomputes_activation) s.activation = arena.allocate({rows, d.experts.ffn}, d.compute);
  if (in_fp8) {
    const auto columnwise = recipe.columnwise(Role::input);
    if (recomputes_activation) s.activation_cast = fp8::CastBuffer(arena, rows * d.experts.ffn, columnwise);
    if (recipe.two_copies(Role::input) || recipe.transposed(Role::input, false))
      s.rowwise =
          fp8::CastBuffer(arena, rows * std::max(sends_fp8 ? 0 : d.hidden, d.experts.ffn), recipe.rowwise(Role::input));
    s.gradient = CastScratch::allocate(recipe, Role::output_gradient,
                                       rows * std::max(sends_fp8 ? 0 : d.hidden, 2 * d.experts.ffn), arena);
    if (sends_fp8) {
      s.sent = fp8::CastBuffer(arena, tokens * d.hidden, recipe.rowwise(Role::input));
      s.sent_gradient = fp8::CastBuffer(arena, tokens * d.hidden, recipe.rowwise(Role::output_gradient));
      s.arrived_gradient = fp8::CastBuffer(received, rows * d.hidden, recipe.rowwise(Role::output_gradient));
    }
  }
  if (d.experts.most_rounds(tokens) > 1) {
    s.further = Rows::allocate(d, arena, received);
    const auto allocate_matrices = [&](bool there, bool cast) {
      if (!there) return;
      s.further.allocate_input(d, recipe, cast, arena, received);
      s.further.allocate_activation(d, recipe, cast, arena);
    };
    tensor::overlay(
        arena, [&] { allocate_matrices(plain, false); }, [&] { allocate_matrices(in_fp8, true); });
  }
  s.all = arena.since(begin);
  return s;
}

Tensor MoeMlp::own(const Tensor& of_micro_batch) const { return of_micro_batch.slice(first_token_, d_.tokens_local()); }

void MoeMlp::route(const Context& context, const Saved& saved, HeldSum x, const Weights& w, const Scratch& scratch,
                   const Routed& routed) const {
  const Lease memory = context.lease("the scratch of a router", {scratch.all});
  norm_.forward(context, saved.normed, saved.statistics, x.sum, w.norm);
  x.read();
  fprop(context, scratch.logits, saved.normed, w.router, {});
  const MoeRouting& r = saved.routing;
  const bool learned = d_.experts.routing == deck::MoeRouting::learned;
  if (!learned) {
    const kernels::MoeDraw draw{.balanced = d_.experts.routing == deck::MoeRouting::balanced,
                                .skew = d_.experts.skew,
                                .experts = d_.experts.experts,
                                .seed = d_.experts.seed,
                                .step = routed.step,
                                .layer = routed.layer,
                                .first_token = first_token_,
                                .seq = d_.seq,
                                .first_sequence = routed.first_sequence,
                                .sequence_stride = routed.sequence_stride};
    context.issue(Kernel::on("moe_draw", r.chosen).writes(r.chosen),
                  [&](const tensor::Exec& exec) { kernels::moe_draw(exec, r.chosen, draw); });
  }
  context.issue(
      Kernel::on("moe_route", scratch.logits).reads(scratch.logits).writes(r.probabilities, r.chosen, r.weights),
      [&](const tensor::Exec& exec) { kernels::moe_route(exec, r, scratch.logits, learned); });
  const Tensor weights = own(routed.token_weights),
               counts = saved.counts.slice(group_rank_, 1).reshaped({d_.experts.experts});
  context.issue(Kernel::on("moe_sort", r.chosen).reads(r.chosen, weights).writes(counts, saved.position, saved.source),
                [&](const tensor::Exec& exec) {
                  kernels::moe_sort(exec, counts, saved.position, saved.source, r.chosen, weights);
                });
  exchange_.exchange_counts(context, saved.counts);
  if (!routed.counts.empty())
    context.issue(Kernel::on("moe_count", saved.counts).reads(saved.counts, routed.counts).writes(routed.counts),
                  [&](const tensor::Exec& exec) {
                    kernels::moe_count(
                        exec, routed.counts, saved.counts,
                        {group_rank_, d_.experts.round_rows(d_.tokens_local()), d_.experts.rows_multiple});
                  });
  balance(context, saved, routed);
}

void MoeMlp::balance(const Context& context, const Saved& saved, const Routed& routed) const {
  const Tensor& sums = saved.sequence_sums;
  if (sums.empty()) return;
  const MoeRouting& r = saved.routing;
  const Tensor weights = own(routed.token_weights);
  context.issue(Kernel::on("moe_sequence_sums", r.probabilities).reads(r.probabilities, r.chosen, weights).writes(sums),
                [&](const tensor::Exec& exec) {
                  kernels::moe_sequence_sums(exec, sums, r.chosen, r.probabilities, weights, first_token_, d_.seq);
                });
  if (d_.tensor > 1) {
    auto part = context.timer().exchange(Exchange::routing);
    context.executor.run({.op = Collective::all_reduce, .ranks = d_.tensor, .tensors = {&sums, 1}}, [&] {
      return context.tensor_group.all_reduce({&sums, 1}, comm::Communicator::Reduce::sum);
    });
  }
  if (routed.balance.empty()) return;
  context.issue(Kernel::on("moe_balance", sums).reads(sums), [&](const tensor::Exec& exec) {
    kernels::moe_balance(exec, routed.balance, sums, d_.experts.balance, d_.experts.per_token, d_.seq);
  });
}

fp8::Operands MoeMlp::input_of(const Context& context, const fp8::Site& site, const Tensor& plain,
                               const fp8::CastBuffer& kept, const Scratch& scratch) const {
  if (!site.on()) return plain;
  const CastScratch casts{scratch.rowwise.empty() ? kept : scratch.rowwise, kept};
  return casts.view(context.quantizer->recipe(), Role::input, plain.rows(), plain.cols(), false);
}

Tensor MoeMlp::cast_to_send(const Context& context, const fp8::Site& site, const fp8::CastBuffer& to,
                            const Tensor& scale_inv, const Tensor& x, Purpose purpose) const {
  const fp8::Recipe& recipe = context.quantizer->recipe();
  Operand cast = to.view(x.rows(), x.cols(), recipe.dtype(site.role), recipe.rowwise(site.role));
  cast.scale_inv = scale_inv;
  context.quantizer->cast(site, fp8::Operands(cast), x, fp8::Quantizer::Tokens::dispatched, purpose);
  return cast.data;
}

Tensor MoeMlp::input_scale_inv(const Saved& saved) { return scale_inv_of(saved.rows.input_cast); }

WeightedRows MoeMlp::tokens_to_send(const Context& context, const Saved& saved, const Scratch& scratch,
                                    Purpose purpose) const {
  const Tensor weights = saved.routing.weights.reshaped({saved.source.count()});
  if (!sends_fp8(saved)) return {saved.normed, weights};
  return {cast_to_send(context, saved.fc1, scratch.sent, input_scale_inv(saved), saved.normed, purpose), weights};
}

fp8::Operands MoeMlp::arrived(const Context& context, Role role, const fp8::CastBuffer& in, const Tensor& scale_inv,
                              std::int64_t n, std::int64_t cols) {
  const fp8::Recipe& recipe = context.quantizer->recipe();
  Operand cast = in.view(n, cols, recipe.dtype(role), recipe.rowwise(role));
  cast.scale_inv = scale_inv;
  return fp8::Operands(cast);
}

fp8::Operands MoeMlp::input_of_round(const Context& context, const Round& round, const Rows& rows, const Saved& saved,
                                     const Scratch& scratch) const {
  if (sends_fp8(saved))
    return arrived(context, Role::input, rows.input_cast, input_scale_inv(saved), round.rows, d_.hidden);
  const Tensor& plain = saved.fc1.on() ? scratch.doutput : rows.input;
  return input_of(context, saved.fc1, plain.slice(0, round.rows), rows.input_cast, scratch);
}

fp8::Operands MoeMlp::cast_gradient(const Context& context, const Round& round, const fp8::Site& site,
                                    const Tensor& plain, const Scratch& scratch) const {
  if (!site.on()) return plain;
  const fp8::Operands casts =
      scratch.gradient.view(context.quantizer->recipe(), Role::output_gradient, plain.rows(), plain.cols(), false);
  context.quantizer->cast(site.with(Role::output_gradient), casts, plain, fp8::Quantizer::Tokens::all,
                          Purpose::both_passes, round.end);
  return casts;
}

fp8::Operands MoeMlp::compute(const Context& context, const Round& round, const Rows& rows, const WeightedRows& sent,
                              bool activates, Purpose purpose, const Saved& saved, const ExpertWeights& w,
                              const Scratch& scratch) const {
  constexpr auto kAll = fp8::Quantizer::Tokens::all;
  const std::int64_t n = round.rows;
  const bool in_fp8 = saved.fc1.on(), casts = in_fp8 && !sends_fp8(saved);
  const Tensor weights = rows.weights.slice(0, n), inner = rows.preactivation.slice(0, n);
  const fp8::Operands input = input_of_round(context, round, rows, saved, scratch);
  const Tensor to = casts ? scratch.doutput.slice(0, n) : input.rowwise.data;
  exchange_.dispatch(context, round, {to, weights}, sent, saved.source, scratch.exchange, !casts,
                     {2 * d_.experts.ffn * d_.hidden, in_fp8}, [&](const GroupPart& part) {
                       const At at(context.executor, Linear::fc1);
                       if (casts) context.quantizer->cast(saved.fc1, input, to, kAll, purpose, round.end);
                       grouped_fprop(context, inner, input.rowwise, w.fc1, part);
                     });
  if (!activates) return {};
  const At at(context.executor, Linear::fc2);
  const Tensor a = (in_fp8 ? scratch.dactivation : rows.activation).slice(0, n);
  context.issue(Kernel::on("moe_swiglu_forward", a).reads(inner, weights).writes(a),
                [&](const tensor::Exec& exec) { kernels::moe_swiglu_forward(exec, a, inner, weights, round.end); });
  const fp8::Operands activation = input_of(context, saved.fc2, a, rows.activation_cast, scratch);
  if (in_fp8)
    context.quantizer->cast(saved.fc2, activation, a, kAll, rows.recomputed ? Purpose::forward_pass : purpose,
                            round.end);
  return activation;
}

void MoeMlp::forward(const Context& context, const Tensor& y, const Tensor& residual, const Saved& saved,
                     const ExpertWeights& w, const Scratch& scratch) const {
  const Lease memory = context.lease("the scratch of experts", {scratch.all});
  const WeightedRows sent = tokens_to_send(context, saved, scratch, Purpose::both_passes);
  const std::int64_t rounds = exchange_.begin(context, saved.counts, scratch.exchange);
  for (std::int64_t k = rounds; k-- > 0;) {
    const Round round = exchange_.round(context, k, scratch.exchange);
    const Purpose purpose = k == 0 ? Purpose::both_passes : Purpose::forward_pass;  // further rounds are recomputed
    const fp8::Operands activation =
        compute(context, round, rows_of(k, saved, scratch), sent, true, purpose, saved, w, scratch);
    const Tensor results = exchange_.results_of(round, scratch.exchange).rows;
    exchange_.combine(context, round, false, scratch.exchange, {d_.hidden * d_.experts.ffn, saved.fc2.on()},
                      [&](const GroupPart& part) {
                        const At at(context.executor, Linear::fc2);
                        grouped_fprop(context, results, activation.rowwise, w.fc2, part);
                      });
  }
  context.issue(Kernel::on("moe_combine", y).reads(residual, scratch.exchange.returned.rows, saved.position).writes(y),
                [&](const tensor::Exec& exec) {
                  kernels::moe_combine(exec, y, residual, scratch.exchange.returned.rows, saved.position);
                });
}

void MoeMlp::recompute(const Context& context, const Saved& saved, const ExpertWeights& w,
                       const Scratch& scratch) const {
  const operation::Recomputing again(context.executor);
  const Lease memory = context.lease("the scratch of experts", {scratch.all});
  const WeightedRows sent = tokens_to_send(context, saved, scratch, Purpose::both_passes);
  if (exchange_.begin(context, saved.counts, scratch.exchange) == 0) return;
  compute(context, exchange_.round(context, 0, scratch.exchange), saved.rows, sent, !saved.rows.recomputed,
          Purpose::both_passes, saved, w, scratch);
}

void MoeMlp::backward_experts(const Context& context, const Tensor& dy, const ExpertGradients& dw, const Saved& saved,
                              const ExpertWeights& w, const Scratch& scratch) const {
  const Lease memory = context.lease("the scratch of experts", {scratch.all});
  const fp8::Site gradient = saved.fc2.with(Role::output_gradient);
  const Tensor sent = sends_fp8(saved) ? cast_to_send(context, gradient, scratch.sent_gradient,
                                                      scale_inv_of(scratch.sent_gradient), dy, Purpose::both_passes)
                                       : dy;
  const std::int64_t rounds = exchange_.begin(context, saved.counts, scratch.exchange);
  WeightedRows tokens;
  for (std::int64_t k = 0; k < rounds; ++k) {
    const Round round = exchange_.round(context, k, scratch.exchange);
    const Rows& rows = rows_of(k, saved, scratch);
    if (k > 0) {
      const operation::Recomputing again(context.executor);
      if (k == 1) tokens = tokens_to_send(context, saved, scratch, Purpose::recomputed);
      compute(context, round, rows, tokens, true, Purpose::both_passes, saved, w, scratch);
    }
    backward_round(context, round, sent, {dw.fc1, dw.fc2, dw.accumulate || k > 0}, rows, saved, w, scratch);
  }
  if (rounds > 0 || dw.accumulate) return;
  for (const Tensor& sum : {dw.fc1, dw.fc2})
    context.issue(Kernel::on("fill_zero", sum).writes(sum),
                  [&](const tensor::Exec& exec) { kernels::fill_zero(exec, sum); });
}

void MoeMlp::backward_round(const Context& context, const Round& round, const Tensor& sent, const ExpertGradients& dw,
                            const Rows& rows, const Saved& saved, const ExpertWeights& w,
                            const Scratch& scratch) const {
  const std::int64_t n = round.rows;
  const Tensor dactivation = scratch.dactivation.slice(0, n);
  const Tensor inner = rows.preactivation.slice(0, n), weights = rows.weights.slice(0, n);
  const auto [dinput, dweights] = exchange_.results_of(round, scratch.exchange);
  fp8::Operands dy_rows;
  if (sends_fp8(saved))
    dy_rows = arrived(context, Role::output_gradient, scratch.arrived_gradient, scale_inv_of(scratch.sent_gradient), n,
                      d_.hidden);
  const Tensor doutput = sends_fp8(saved) ? dy_rows.rowwise.data : scratch.doutput.slice(0, n);
  const bool in_fp8 = saved.fc2.on(), casts = in_fp8 && !sends_fp8(saved);
  if (!in_fp8) dy_rows = doutput;
  exchange_.dispatch(context, round, {doutput, {}}, {sent, {}}, saved.source, scratch.exchange, !casts,
                     {d_.hidden * d_.experts.ffn, in_fp8}, [&](const GroupPart& part) {
                       const At at(context.executor, Linear::fc2);
                       if (casts) dy_rows = cast_gradient(context, round, saved.fc2, doutput, scratch);
                       grouped_dgrad(context, dactivation, dy_rows.rowwise, w.fc2, part);
                     });
  {
    const At at(context.executor, Linear::fc2);
    // In FP8 the shape alone of a plain matrix is read, unless it is recomputed.
    const Tensor a = (!in_fp8 ? rows.activation : rows.recomputed ? scratch.activation : dactivation).slice(0, n);
    const Tensor recomputed = rows.recomputed ? a : Tensor{};
    context.issue(
        Kernel::on("moe_swiglu_backward", inner).reads(dactivation, inner, weights).writes(inner, dweights, recomputed),
        [&, &dweights = dweights](const tensor::Exec& exec) {
          kernels::moe_swiglu_backward(exec, inner, dweights, dactivation, inner, weights, recomputed, round.end);
        });
    const fp8::Operands activation = input_of(context, saved.fc2, a, rows.activation_cast, scratch);
    if (in_fp8 && rows.recomputed)
      context.quantizer->cast(saved.fc2, activation, a, fp8::Quantizer::Tokens::all, Purpose::recomputed, round.end);
    grouped_wgrad(context, dw.fc2, dy_rows.columnwise, activation.columnwise, round.whole(), dw.accumulate);
  }
  const At at(context.executor, Linear::fc1);
  const fp8::Operands dinner = cast_gradient(context, round, saved.fc1, inner, scratch);
  const fp8::Operands input = input_of_round(context, round, rows, saved, scratch);
  grouped_dgrad(context, dinput, dinner.rowwise, w.fc1, round.whole());
  exchange_.combine_during(context, round, true, scratch.exchange, {2 * d_.experts.ffn * d_.hidden, in_fp8},
                           [&](const GroupPart& whole) {
                             grouped_wgrad(context, dw.fc1, dinner.columnwise, input.columnwise, whole, dw.accumulate);
                           });
}

void MoeMlp::backward(const Context& context, const Tensor& dx, const Gradients& dw, const Tensor& x,
                      const Saved& saved, const Weights& w, const Scratch& scratch, const Routed& routed,
                      float sequence_scale) const {
  const Lease memory = context.lease("the scratch of a router", {scratch.all});
  const Tensor token_weights = own(routed.token_weights);
  const Tensor &dweights = scratch.dweights, &dlogits = scratch.dlogits, &dnormed = scratch.dnormed;
  context.issue(Kernel::on("moe_combine_values", dweights)
                    .reads(scratch.exchange.returned.weights, saved.position)
                    .writes(dweights),
                [&](const tensor::Exec& exec) {
                  kernels::moe_combine_values(exec, dweights, scratch.exchange.returned.weights, saved.position);
                });
  const kernels::MoeBalance balance{.sums = saved.sequence_sums,
                                    .first_token = first_token_,
                                    .seq = d_.seq,
                                    .coefficient = static_cast<float>(d_.experts.balance) * sequence_scale};
  const MoeRouting& r = saved.routing;
  context.issue(Kernel::on("moe_route_backward", dlogits)
                    .reads(dweights, r.probabilities, r.chosen, r.weights, saved.sequence_sums, token_weights)
                    .writes(dlogits),
                [&](const tensor::Exec& exec) {
                  kernels::moe_route_backward(exec, dlogits, dweights, r, balance, token_weights);
                });
  wgrad(context, dw.router.sum.weight, dlogits, saved.normed, dw.router.accumulate);
  dgrad(context, dnormed, dlogits, w.router);
  context.issue(
      Kernel::on("moe_combine", dnormed).reads(dnormed, scratch.exchange.returned.rows, saved.position).writes(dnormed),
      [&](const tensor::Exec& exec) {
        kernels::moe_combine(exec, dnormed, dnormed, scratch.exchange.returned.rows, saved.position);
      });
  norm_.backward(context, dx, dw.norm, dnormed, x, saved.statistics, w.norm, dx);
}

}  // namespace shard8::model

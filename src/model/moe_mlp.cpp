// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/moe_mlp.hpp"

#include <array>
#include <span>

#include "kernels/elementwise.hpp"

namespace shard8::model {

using kernels::MoeRouting;
using operation::Kernel;
using operation::Linear;
using profile::Collective;
using profile::Exchange;
using tensor::DType;
using tensor::Tensor;

namespace {

/// Of an expert, whose rows of the weight begin with row expert·rows.
Weight weight_of(const Weight& all, std::int64_t expert, std::int64_t rows) {
  const fsdp::Copies own = fsdp::slice(all, expert * rows, rows);
  return {own.forward, own.backward, all.stamp};
}

/// The values of i32 in memory of the host.
std::span<const std::int32_t> values_of(const Tensor& t) {
  return {t.as<std::int32_t>(), static_cast<std::size_t>(t.count())};
}

Kernel kernel(std::string_view name, const Tensor& of, DType out) {
  return Kernel{name, of.rows(), of.cols(), of.dtype, out};
}
Kernel kernel(std::string_view name, const Tensor& of) { return kernel(name, of, of.dtype); }

/// Whether what a router chose is there to be read.
bool routes(const Context& context) { return context.executor.computes() && context.executor.communicates(); }

}  // namespace

MoeMlp::MoeMlp(const Dims& dims, int tensor_rank, int group_rank)
    : norm_{dims.arch, dims.norm_eps},
      d_(dims),
      first_token_(tensor_rank * dims.tokens_local()),
      group_rank_(group_rank),
      rounds_(dims.experts, dims.tokens_local(), group_rank) {}

MoeMlp::Rows MoeMlp::Rows::allocate(const Dims& d, tensor::Arena& arena) {
  const std::int64_t rows = d.experts.round_rows(d.tokens_local());
  Rows r;
  r.input = arena.allocate({rows, d.hidden}, d.compute);
  r.weights = arena.allocate({rows}, DType::fp32);
  r.preactivation = arena.allocate({rows, 2 * d.experts.ffn}, d.compute);
  return r;
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

MoeMlp::Scratch MoeMlp::Scratch::allocate(const Dims& d, bool recomputes_activation, tensor::Arena& arena) {
  const std::int64_t tokens = d.tokens_local(), pairs = tokens * d.experts.per_token;
  const std::int64_t rows = d.experts.round_rows(tokens);
  const std::size_t begin = arena.mark();
  Scratch s;
  s.logits = arena.allocate({tokens, d.experts.experts}, DType::fp32);
  s.dlogits = arena.allocate({tokens, d.experts.experts}, d.compute);
  s.dweights = arena.allocate({tokens, d.experts.per_token}, DType::fp32);
  s.dnormed = arena.allocate({tokens, d.hidden}, d.compute);
  s.returned = arena.allocate({pairs, d.hidden}, d.compute);
  s.returned_weights = arena.allocate({pairs}, DType::fp32);
  if (d.experts.ranks > 1) {
    s.sent = arena.allocate({pairs, d.hidden}, d.compute);
    s.sent_weights = arena.allocate({pairs}, DType::fp32);
    s.arrived = arena.allocate({rows, d.hidden}, d.compute);
    s.arrived_weights = arena.allocate({rows}, DType::fp32);
    s.arrival = arena.allocate({rows}, DType::i32);
    s.place = arena.allocate({rows}, DType::i32);
  }
  s.output = arena.allocate({rows, d.hidden}, d.compute);
  s.doutput = arena.allocate({rows, d.hidden}, d.compute);
  s.dactivation = arena.allocate({rows, d.experts.ffn}, d.compute);
  s.drow_weights = arena.allocate({rows}, DType::fp32);
  if (recomputes_activation) s.activation = arena.allocate({rows, d.experts.ffn}, d.compute);
  if (d.experts.most_rounds(tokens) > 1) {
    s.further = Rows::allocate(d, arena);
    s.further.activation = arena.allocate({rows, d.experts.ffn}, d.compute);
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
    context.issue(kernel("moe_draw", r.chosen).writes(r.chosen),
                  [&](const tensor::Exec& exec) { kernels::moe_draw(exec, r.chosen, draw); });
  }
  context.issue(kernel("moe_route", scratch.logits).reads(scratch.logits).writes(r.probabilities, r.chosen, r.weights),
                [&](const tensor::Exec& exec) { kernels::moe_route(exec, r, scratch.logits, learned); });
  const Tensor weights = own(routed.token_weights),
               counts = saved.counts.slice(group_rank_, 1).reshaped({d_.experts.experts});
  context.issue(kernel("moe_sort", r.chosen).reads(r.chosen, weights).writes(counts, saved.position, saved.source),
                [&](const tensor::Exec& exec) {
                  kernels::moe_sort(exec, counts, saved.position, saved.source, r.chosen, weights);
                });
  if (!routed.counts.empty())
    context.issue(kernel("moe_count", counts).reads(counts, routed.counts).writes(routed.counts),
                  [&](const tensor::Exec& exec) { kernels::moe_count(exec, routed.counts, counts); });
  exchange_counts(context, saved);
  balance(context, saved, routed);
}

void MoeMlp::exchange_counts(const Context& context, const Saved& saved) const {
  if (d_.experts.ranks == 1) return;
  auto part = context.timer().exchange(Exchange::routing);
  context.executor.run({.op = Collective::all_gather,
                        .group = base::AxisSet::expert,
                        .ranks = d_.experts.ranks,
                        .tensors = {&saved.counts, 1}},
                       [&] {
                         return context.expert_group->all_gather_in_place({&saved.counts, 1}, {}, "routing");
                       });
}

void MoeMlp::balance(const Context& context, const Saved& saved, const Routed& routed) const {
  const Tensor& sums = saved.sequence_sums;
  if (sums.empty()) return;
  const MoeRouting& r = saved.routing;
  const Tensor weights = own(routed.token_weights);
  context.issue(kernel("moe_sequence_sums", r.probabilities).reads(r.probabilities, r.chosen, weights).writes(sums),
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
  context.issue(kernel("moe_balance", sums).reads(sums), [&](const tensor::Exec& exec) {
    kernels::moe_balance(exec, routed.balance, sums, d_.experts.balance, d_.experts.per_token, d_.seq);
  });
}

std::int64_t MoeMlp::begin_rounds(const Context& context, const Saved& saved) const {
  if (routes(context)) {
    tensor::finish(context.executor.exec());
    rounds_.set(values_of(saved.counts));
  } else {
    rounds_.set_mean();
  }
  return rounds_.rounds();
}

MoeMlp::Round MoeMlp::begin_round(const Context& context, std::int64_t number, const Scratch& scratch) const {
  const bool writes = context.executor.computes();
  return rounds_.round(number, writes ? scratch.arrival : Tensor{}, writes ? scratch.place : Tensor{});
}

void MoeMlp::dispatch(const Context& context, const Round& round, const Tensor& rows, const Tensor& row_weights,
                      const Tensor& tokens, const Saved& saved, const Scratch& scratch) const {
  // Also of no rows: all ranks of the group exchange as many tensors.
  const bool weighted = row_weights.data != nullptr, alone = d_.experts.ranks == 1;
  const auto gather = [&](const Tensor& to, const Tensor& to_weights, std::int64_t first) {
    const Tensor source = saved.source.slice(first, to.rows());
    context.issue(kernel("moe_gather_rows", to).reads(to, source).writes(to), [&](const tensor::Exec& exec) {
      kernels::moe_gather_rows(exec, to, tokens, source, d_.experts.per_token);
    });
    if (!weighted) return;
    const Tensor weights = saved.routing.weights.reshaped({saved.routing.weights.count()});
    context.issue(kernel("moe_gather_values", to_weights).reads(to_weights, source).writes(to_weights),
                  [&](const tensor::Exec& exec) { kernels::moe_gather_values(exec, to_weights, weights, source); });
  };
  if (alone) return gather(rows, row_weights, round.send_first[0]);
  std::int64_t row = 0;
  for (std::size_t to = 0; to < round.send_rows.size(); row += round.send_rows[to++])
    gather(scratch.sent.slice(row, round.send_rows[to]), scratch.sent_weights.slice(row, round.send_rows[to]),
           round.send_first[to]);
  const std::array<Tensor, 2> in{scratch.sent.slice(0, round.sent), scratch.sent_weights.slice(0, round.sent)};
  const std::array<Tensor, 2> out{scratch.arrived.slice(0, round.received),
                                  scratch.arrived_weights.slice(0, round.received)};
  const std::array<comm::Communicator::AllToAllItem, 2> items{
      {{out[0], in[0], round.receive_rows, round.send_rows}, {out[1], in[1], round.receive_rows, round.send_rows}}};
  const std::size_t count = weighted ? 2 : 1;
  {
    const At at(context.executor, Linear::fc1);
    auto part = context.timer().exchange(Exchange::dispatch);
    context.executor.run({.op = Collective::all_to_all,
                          .group = base::AxisSet::expert,
                          .ranks = d_.experts.ranks,
                          .tensors = std::span(in).first(count),
                          .own = std::span(out).first(count)},
                         [&] { return context.expert_group->all_to_all(std::span(items).first(count), "dispatch"); });
  }
  const Tensor arrival = scratch.arrival.slice(0, round.received);
  context.issue(kernel("moe_gather_rows", rows).reads(out[0], arrival).writes(rows),
                [&](const tensor::Exec& exec) { kernels::moe_gather_rows(exec, rows, out[0], arrival, 1); });
  if (weighted)
    context.issue(kernel("moe_gather_values", row_weights).reads(out[1], arrival).writes(row_weights),
                  [&](const tensor::Exec& exec) { kernels::moe_gather_values(exec, row_weights, out[1], arrival); });
}

void MoeMlp::combine(const Context& context, const Round& round, const Tensor& rows, const Tensor& row_weights,
                     const Scratch& scratch) const {
  const bool weighted = row_weights.data != nullptr;
  const std::array<Tensor, 2> from{rows, row_weights};
  const std::array<Tensor, 2> returned{scratch.returned, scratch.returned_weights};
  const std::array<Tensor, 2> back{scratch.sent.empty() ? Tensor{} : scratch.sent.slice(0, round.sent),
                                   scratch.sent.empty() ? Tensor{} : scratch.sent_weights.slice(0, round.sent)};
  const std::size_t count = weighted ? 2 : 1;
  const auto copy = [&](const Tensor& to, const Tensor& what) {
    context.issue(kernel("cast", what).reads(what).writes(to),
                  [&](const tensor::Exec& exec) { kernels::cast(exec, to, what); });
  };
  if (d_.experts.ranks == 1) {
    for (std::size_t i = 0; i < count; ++i) copy(returned[i].slice(round.send_first[0], round.sent), from[i]);
    return;
  }
  const std::array<Tensor, 2> in{scratch.arrived.slice(0, round.received),
                                 scratch.arrived_weights.slice(0, round.received)};
  const Tensor place = scratch.place.slice(0, round.received);
  context.issue(kernel("moe_gather_rows", in[0]).reads(rows, place).writes(in[0]),
                [&](const tensor::Exec& exec) { kernels::moe_gather_rows(exec, in[0], rows, place, 1); });
  if (weighted)
    context.issue(kernel("moe_gather_values", in[1]).reads(row_weights, place).writes(in[1]),
                  [&](const tensor::Exec& exec) { kernels::moe_gather_values(exec, in[1], row_weights, place); });
  const std::array<comm::Communicator::AllToAllItem, 2> items{
      {{back[0], in[0], round.send_rows, round.receive_rows}, {back[1], in[1], round.send_rows, round.receive_rows}}};
  {
    const At at(context.executor, Linear::fc2);
    auto part = context.timer().exchange(Exchange::combine);
    context.executor.run({.op = Collective::all_to_all,
                          .group = base::AxisSet::expert,
                          .ranks = d_.experts.ranks,
                          .tensors = std::span(in).first(count),
                          .own = std::span(back).first(count)},
                         [&] { return context.expert_group->all_to_all(std::span(items).first(count), "combine"); });
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t row = 0;
    for (std::size_t to = 0; to < round.send_rows.size(); row += round.send_rows[to++])
      copy(returned[i].slice(round.send_first[to], round.send_rows[to]), back[i].slice(row, round.send_rows[to]));
  }
}

void MoeMlp::first_product(const Context& context, const Round& round, const Rows& rows, const ExpertWeights& w) const {
  const At at(context.executor, Linear::fc1);
  for (std::int64_t e = 0; e < d_.experts.local(); ++e) {
    const std::int64_t first = round.expert_first[static_cast<std::size_t>(e)];
    const std::int64_t n = round.expert_rows[static_cast<std::size_t>(e)];
    if (n > 0)
      fprop(context, rows.preactivation.slice(first, n), rows.input.slice(first, n),
            weight_of(w.fc1, e, 2 * d_.experts.ffn), {});
  }
}

void MoeMlp::activate(const Context& context, const Round& round, const Rows& rows) const {
  const Tensor a = rows.activation.slice(0, round.received), x = rows.preactivation.slice(0, round.received);
  const Tensor weights = rows.weights.slice(0, round.received);
  context.issue(kernel("moe_swiglu_forward", a).reads(x, weights).writes(a),
                [&](const tensor::Exec& exec) { kernels::moe_swiglu_forward(exec, a, x, weights); });
}

void MoeMlp::forward(const Context& context, const Tensor& y, const Tensor& residual, const Saved& saved,
                     const ExpertWeights& w, const Scratch& scratch) const {
  const Lease memory = context.lease("the scratch of experts", {scratch.all});
  const std::int64_t rounds = begin_rounds(context, saved);
  for (std::int64_t k = 0; k < rounds; ++k) {
    const Round round = begin_round(context, k, scratch);
    const Rows& rows = k == 0 ? saved.rows : scratch.further;
    dispatch(context, round, rows.input.slice(0, round.received), rows.weights.slice(0, round.received), saved.normed,
             saved, scratch);
    first_product(context, round, rows, w);
    activate(context, round, rows);
    const Tensor output = scratch.output.slice(0, round.received);
    {
      const At at(context.executor, Linear::fc2);
      for (std::int64_t e = 0; e < d_.experts.local(); ++e) {
        const std::int64_t first = round.expert_first[static_cast<std::size_t>(e)];
        const std::int64_t n = round.expert_rows[static_cast<std::size_t>(e)];
        if (n > 0)
          fprop(context, output.slice(first, n), rows.activation.slice(first, n), weight_of(w.fc2, e, d_.hidden), {});
      }
    }
    combine(context, round, output, {}, scratch);
  }
  context.issue(
      kernel("moe_combine", y).reads(residual, scratch.returned, saved.position).writes(y),
      [&](const tensor::Exec& exec) { kernels::moe_combine(exec, y, residual, scratch.returned, saved.position); });
}

void MoeMlp::recompute(const Context& context, const Saved& saved, const ExpertWeights& w,
                       const Scratch& scratch) const {
  const operation::Recomputing again(context.executor);
  const Lease memory = context.lease("the scratch of experts", {scratch.all});
  if (begin_rounds(context, saved) == 0) return;
  const Round round = begin_round(context, 0, scratch);
  const Rows& rows = saved.rows;
  dispatch(context, round, rows.input.slice(0, round.received), rows.weights.slice(0, round.received), saved.normed,
           saved, scratch);
  first_product(context, round, rows, w);
  if (!rows.recomputed) activate(context, round, rows);
}

void MoeMlp::backward_experts(const Context& context, const Tensor& dy, const ExpertGradients& dw, const Saved& saved,
                              const ExpertWeights& w, const Scratch& scratch) const {
  const Lease memory = context.lease("the scratch of experts", {scratch.all});
  const std::int64_t rounds = begin_rounds(context, saved);
  for (std::int64_t k = 0; k < rounds; ++k) {
    const Round round = begin_round(context, k, scratch);
    const Rows& rows = k == 0 ? saved.rows : scratch.further;
    if (k > 0) {
      const operation::Recomputing again(context.executor);
      dispatch(context, round, rows.input.slice(0, round.received), rows.weights.slice(0, round.received), saved.normed,
               saved, scratch);
      first_product(context, round, rows, w);
      activate(context, round, rows);
    }
    backward_round(context, round, dy, dw, rows, saved, w, scratch);
  }
}

void MoeMlp::backward_round(const Context& context, const Round& round, const Tensor& dy, const ExpertGradients& dw,
                            const Rows& rows, const Saved& saved, const ExpertWeights& w,
                            const Scratch& scratch) const {
  const std::int64_t n = round.received, ffn = d_.experts.ffn;
  const Tensor doutput = scratch.doutput.slice(0, n), dactivation = scratch.dactivation.slice(0, n);
  const Tensor dinput = scratch.output.slice(0, n), inner = rows.preactivation.slice(0, n);
  const Tensor weights = rows.weights.slice(0, n), dweights = scratch.drow_weights.slice(0, n);
  dispatch(context, round, doutput, {}, dy, saved, scratch);
  /// Calls work(expert, first row, rows) for each expert of this rank that has rows.
  const auto for_each_expert = [&](Linear linear, const auto& work) {
    const At at(context.executor, linear);
    for (std::int64_t e = 0; e < d_.experts.local(); ++e) {
      const auto i = static_cast<std::size_t>(e);
      if (round.expert_rows[i] > 0) work(e, round.expert_first[i], round.expert_rows[i]);
    }
  };
  for_each_expert(Linear::fc2, [&](std::int64_t e, std::int64_t first, std::int64_t count) {
    dgrad(context, dactivation.slice(first, count), doutput.slice(first, count), weight_of(w.fc2, e, d_.hidden));
  });
  const Tensor activation = rows.activation.slice(0, n);
  const Tensor recomputed = rows.recomputed ? activation : Tensor{};
  context.issue(
      kernel("moe_swiglu_backward", inner).reads(dactivation, inner, weights).writes(inner, dweights, recomputed),
      [&](const tensor::Exec& exec) {
        kernels::moe_swiglu_backward(exec, inner, dweights, dactivation, inner, weights, recomputed);
      });
  for_each_expert(Linear::fc2, [&](std::int64_t e, std::int64_t first, std::int64_t count) {
    wgrad(context, dw.fc2.slice(e * d_.hidden, d_.hidden), doutput.slice(first, count), activation.slice(first, count),
          true);
  });
  for_each_expert(Linear::fc1, [&](std::int64_t e, std::int64_t first, std::int64_t count) {
    wgrad(context, dw.fc1.slice(e * 2 * ffn, 2 * ffn), inner.slice(first, count), rows.input.slice(first, count), true);
    dgrad(context, dinput.slice(first, count), inner.slice(first, count), weight_of(w.fc1, e, 2 * ffn));
  });
  combine(context, round, dinput, dweights, scratch);
}

void MoeMlp::backward(const Context& context, const Tensor& dx, const Gradients& dw, const Tensor& x,
                      const Saved& saved, const Weights& w, const Scratch& scratch, const Routed& routed,
                      float sequence_scale) const {
  const Lease memory = context.lease("the scratch of a router", {scratch.all});
  const Tensor token_weights = own(routed.token_weights);
  const Tensor &dweights = scratch.dweights, &dlogits = scratch.dlogits, &dnormed = scratch.dnormed;
  context.issue(kernel("moe_combine_values", dweights).reads(scratch.returned_weights, saved.position).writes(dweights),
                [&](const tensor::Exec& exec) {
                  kernels::moe_combine_values(exec, dweights, scratch.returned_weights, saved.position);
                });
  const kernels::MoeBalance balance{.sums = saved.sequence_sums,
                                    .first_token = first_token_,
                                    .seq = d_.seq,
                                    .coefficient = static_cast<float>(d_.experts.balance) * sequence_scale};
  const MoeRouting& r = saved.routing;
  context.issue(kernel("moe_route_backward", dlogits)
                    .reads(dweights, r.probabilities, r.chosen, r.weights, saved.sequence_sums, token_weights)
                    .writes(dlogits),
                [&](const tensor::Exec& exec) {
                  kernels::moe_route_backward(exec, dlogits, dweights, r, balance, token_weights);
                });
  wgrad(context, dw.router.sum.weight, dlogits, saved.normed, dw.router.accumulate);
  dgrad(context, dnormed, dlogits, w.router);
  context.issue(kernel("moe_combine", dnormed).reads(dnormed, scratch.returned, saved.position).writes(dnormed),
                [&](const tensor::Exec& exec) {
                  kernels::moe_combine(exec, dnormed, dnormed, scratch.returned, saved.position);
                });
  norm_.backward(context, dx, dw.norm, dnormed, x, saved.statistics, w.norm, dx);
}

}  // namespace shard8::model

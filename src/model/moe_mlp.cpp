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
    s.output = arena.allocate({rows, d.hidden}, d.compute);
    s.drow_weights = arena.allocate({rows}, DType::fp32);
  }
  s.doutput = arena.allocate({rows, d.hidden}, d.compute);
  s.dactivation = arena.allocate({rows, d.experts.ffn}, d.compute);
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

void MoeMlp::gather(const Context& context, const Weighted& to, const Weighted& from, const Tensor& index,
                    std::int64_t per_token) const {
  context.issue(
      kernel("moe_gather_rows", to.rows).reads(to.rows, index).writes(to.rows),
      [&](const tensor::Exec& exec) { kernels::moe_gather_rows(exec, to.rows, from.rows, index, per_token); });
  if (to.weights.data == nullptr) return;
  context.issue(kernel("moe_gather_values", to.weights).reads(to.weights, index).writes(to.weights),
                [&](const tensor::Exec& exec) { kernels::moe_gather_values(exec, to.weights, from.weights, index); });
}

void MoeMlp::exchange(const Context& context, const Round& round, const Weighted& out, const Weighted& in,
                      bool back) const {
  const auto &sends = back ? round.receive_rows : round.send_rows,
             &receives = back ? round.send_rows : round.receive_rows;
  const std::array<Tensor, 2> into{out.rows, out.weights}, from{in.rows, in.weights};
  const std::array<comm::Communicator::AllToAllItem, 2> items{
      {{out.rows, in.rows, receives, sends}, {out.weights, in.weights, receives, sends}}};
  // By memory, not by rows: a rank without rows exchanges as many tensors as the others.
  const std::size_t count = in.weights.data == nullptr ? 1 : 2;
  const Exchange name = back ? Exchange::combine : Exchange::dispatch;
  const At at(context.executor, back ? Linear::fc2 : Linear::fc1);
  auto part = context.timer().exchange(name);
  context.executor.run({.op = Collective::all_to_all,
                        .group = base::AxisSet::expert,
                        .ranks = d_.experts.ranks,
                        .tensors = std::span(from).first(count),
                        .own = std::span(into).first(count)},
                       [&] { return context.expert_group->all_to_all(std::span(items).first(count), name_of(name)); });
}

void MoeMlp::dispatch(const Context& context, const Round& round, const Weighted& to, const Weighted& tokens,
                      const Saved& saved, const Scratch& scratch) const {
  const auto source = [&](std::int64_t first, std::int64_t n) { return saved.source.slice(first, n); };
  const std::int64_t per_token = d_.experts.per_token;
  if (d_.experts.ranks == 1) return gather(context, to, tokens, source(round.send_first[0], round.sent), per_token);
  const bool weighted = to.weights.data != nullptr;
  const Weighted sent = Weighted{scratch.sent, scratch.sent_weights}.with(weighted).slice(0, round.sent);
  std::int64_t row = 0;
  for (std::size_t rank = 0; rank < round.send_rows.size(); row += round.send_rows[rank++])
    gather(context, sent.slice(row, round.send_rows[rank]), tokens,
           source(round.send_first[rank], round.send_rows[rank]), per_token);
  const Weighted arrived = Weighted{scratch.arrived, scratch.arrived_weights}.with(weighted).slice(0, round.received);
  exchange(context, round, arrived, sent, false);
  gather(context, to, arrived, scratch.arrival.slice(0, round.received), 1);
}

MoeMlp::Weighted MoeMlp::results_of(const Round& round, const Scratch& scratch) const {
  if (d_.experts.ranks == 1)  // they are those of own tokens
    return Weighted{scratch.returned, scratch.returned_weights}.slice(round.send_first[0], round.sent);
  return Weighted{scratch.output, scratch.drow_weights}.slice(0, round.received);
}

void MoeMlp::combine(const Context& context, const Round& round, bool weighted, const Scratch& scratch) const {
  if (d_.experts.ranks == 1) return;
  const Weighted arrived = Weighted{scratch.arrived, scratch.arrived_weights}.with(weighted).slice(0, round.received);
  gather(context, arrived, results_of(round, scratch), scratch.place.slice(0, round.received), 1);
  const Weighted returned = Weighted{scratch.returned, scratch.returned_weights}.with(weighted);
  const Weighted sent = Weighted{scratch.sent, scratch.sent_weights}.with(weighted);
  // A single round brings all rows back, in the order in which they are sorted.
  const bool all = rounds_.rounds() == 1;
  exchange(context, round, (all ? returned : sent).slice(0, round.sent), arrived, true);
  if (all) return;
  const auto copy = [&](const Tensor& to, const Tensor& from) {
    if (from.data == nullptr) return;
    context.issue(kernel("cast", from).reads(from).writes(to),
                  [&](const tensor::Exec& exec) { kernels::cast(exec, to, from); });
  };
  std::int64_t row = 0;
  for (std::size_t rank = 0; rank < round.send_rows.size(); row += round.send_rows[rank++]) {
    const Weighted from = sent.slice(row, round.send_rows[rank]);
    const Weighted to = returned.slice(round.send_first[rank], round.send_rows[rank]);
    copy(to.rows, from.rows);
    copy(to.weights, from.weights);
  }
}

template <class Work>
void MoeMlp::for_each_expert(const Context& context, Linear linear, const Round& round, const Work& work) const {
  const At at(context.executor, linear);
  for (std::int64_t e = 0; e < d_.experts.local(); ++e) {
    const auto i = static_cast<std::size_t>(e);
    if (round.expert_rows[i] > 0) work(e, round.expert_first[i], round.expert_rows[i]);
  }
}

void MoeMlp::compute(const Context& context, const Round& round, const Rows& rows, bool activates, const Saved& saved,
                     const ExpertWeights& w, const Scratch& scratch) const {
  const std::int64_t n = round.received;
  const Tensor all_weights = saved.routing.weights.reshaped({saved.routing.weights.count()});
  dispatch(context, round, Weighted{rows.input, rows.weights}.slice(0, n), {saved.normed, all_weights}, saved, scratch);
  for_each_expert(context, Linear::fc1, round, [&](std::int64_t e, std::int64_t first, std::int64_t count) {
    fprop(context, rows.preactivation.slice(first, count), rows.input.slice(first, count),
          weight_of(w.fc1, e, 2 * d_.experts.ffn), {});
  });
  if (!activates) return;
  const Tensor a = rows.activation.slice(0, n), x = rows.preactivation.slice(0, n), weights = rows.weights.slice(0, n);
  context.issue(kernel("moe_swiglu_forward", a).reads(x, weights).writes(a),
                [&](const tensor::Exec& exec) { kernels::moe_swiglu_forward(exec, a, x, weights); });
}

void MoeMlp::forward(const Context& context, const Tensor& y, const Tensor& residual, const Saved& saved,
                     const ExpertWeights& w, const Scratch& scratch) const {
  const Lease memory = context.lease("the scratch of experts", {scratch.all});
  const std::int64_t rounds = begin_rounds(context, saved);
  for (std::int64_t k = 0; k < rounds; ++k) {
    const Round round = begin_round(context, k, scratch);
    const Rows& rows = rows_of(k, saved, scratch);
    compute(context, round, rows, true, saved, w, scratch);
    const Tensor output = results_of(round, scratch).rows;
    for_each_expert(context, Linear::fc2, round, [&](std::int64_t e, std::int64_t first, std::int64_t count) {
      fprop(context, output.slice(first, count), rows.activation.slice(first, count), weight_of(w.fc2, e, d_.hidden),
            {});
    });
    combine(context, round, false, scratch);
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
  compute(context, begin_round(context, 0, scratch), saved.rows, !saved.rows.recomputed, saved, w, scratch);
}

void MoeMlp::backward_experts(const Context& context, const Tensor& dy, const ExpertGradients& dw, const Saved& saved,
                              const ExpertWeights& w, const Scratch& scratch) const {
  const Lease memory = context.lease("the scratch of experts", {scratch.all});
  const std::int64_t rounds = begin_rounds(context, saved);
  for (std::int64_t k = 0; k < rounds; ++k) {
    const Round round = begin_round(context, k, scratch);
    const Rows& rows = rows_of(k, saved, scratch);
    if (k > 0) {
      const operation::Recomputing again(context.executor);
      compute(context, round, rows, true, saved, w, scratch);
    }
    backward_round(context, round, dy, dw, rows, saved, w, scratch);
  }
}

void MoeMlp::backward_round(const Context& context, const Round& round, const Tensor& dy, const ExpertGradients& dw,
                            const Rows& rows, const Saved& saved, const ExpertWeights& w,
                            const Scratch& scratch) const {
  const std::int64_t n = round.received, ffn = d_.experts.ffn;
  const Tensor doutput = scratch.doutput.slice(0, n), dactivation = scratch.dactivation.slice(0, n);
  const Tensor inner = rows.preactivation.slice(0, n), weights = rows.weights.slice(0, n);
  const auto [dinput, dweights] = results_of(round, scratch);
  dispatch(context, round, {doutput, {}}, {dy, {}}, saved, scratch);
  for_each_expert(context, Linear::fc2, round, [&](std::int64_t e, std::int64_t first, std::int64_t count) {
    dgrad(context, dactivation.slice(first, count), doutput.slice(first, count), weight_of(w.fc2, e, d_.hidden));
  });
  const Tensor activation = rows.activation.slice(0, n);
  const Tensor recomputed = rows.recomputed ? activation : Tensor{};
  context.issue(
      kernel("moe_swiglu_backward", inner).reads(dactivation, inner, weights).writes(inner, dweights, recomputed),
      [&, &dweights = dweights](const tensor::Exec& exec) {
        kernels::moe_swiglu_backward(exec, inner, dweights, dactivation, inner, weights, recomputed);
      });
  for_each_expert(context, Linear::fc2, round, [&](std::int64_t e, std::int64_t first, std::int64_t count) {
    wgrad(context, dw.fc2.slice(e * d_.hidden, d_.hidden), doutput.slice(first, count), activation.slice(first, count),
          true);
  });
  for_each_expert(context, Linear::fc1, round,
                  [&, &dinput = dinput](std::int64_t e, std::int64_t first, std::int64_t count) {
                    wgrad(context, dw.fc1.slice(e * 2 * ffn, 2 * ffn), inner.slice(first, count),
                          rows.input.slice(first, count), true);
                    dgrad(context, dinput.slice(first, count), inner.slice(first, count), weight_of(w.fc1, e, 2 * ffn));
                  });
  combine(context, round, true, scratch);
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

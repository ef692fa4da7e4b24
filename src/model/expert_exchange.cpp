// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/expert_exchange.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "comm/device.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/moe.hpp"
#include "tensor/transfer.hpp"

namespace shard8::model {

using operation::Kernel;
using operation::Linear;
using profile::Collective;
using profile::Exchange;
using tensor::DType;
using tensor::Tensor;

namespace {

/// Whether what a router chose is there to be read.
bool routes(const Context& context) { return context.executor.computes() && context.executor.communicates(); }

/// Moves views of `from` to the same offsets in `to`. Empty views stay empty.
class MoveTables {
 public:
  MoveTables(const Tensor& from, const Tensor& to) : from_(from.data), to_(to.data) {}
  Tensor operator()(Tensor view) const {
    if (view.data != nullptr) view.data = to_ + (view.data - from_);
    return view;
  }

 private:
  const std::byte* from_;
  std::byte* to_;
};

WeightedRows allocate_rows(std::int64_t rows, const Dims& d, tensor::Arena& arena) {
  WeightedRows w;
  w.rows = arena.allocate({rows, d.hidden}, d.compute);
  w.weights = arena.allocate({rows}, DType::fp32);
  return w;
}

}  // namespace

ExpertExchange::ExpertExchange(const Dims& dims, int group_rank)
    : d_(dims), group_rank_(group_rank), rounds_(dims.experts, dims.tokens_local(), group_rank) {
  if (dims.experts.pushes) expect_rows();  // the host knows no more
}

void ExpertExchange::expect_rows() const {
  if (d_.experts.worst)
    rounds_.set_worst();
  else
    rounds_.set_mean();
}

ExpertExchange::Scratch ExpertExchange::Scratch::allocate(const Dims& d, tensor::Arena& arena, tensor::Arena& pushed) {
  const ExpertDims& e = d.experts;
  const std::int64_t tokens = d.tokens_local(), pairs = tokens * e.per_token, rows = e.round_rows(tokens);
  Scratch s;
  s.returned = allocate_rows(pairs, d, e.pushes ? pushed : arena);
  if (e.pushes || e.sorts()) s.output = allocate_rows(rows, d, arena);
  if (e.pushes) {
    const std::int64_t rounds = e.most_rounds(tokens);
    s.dispatch.first = arena.allocate({rounds, e.local()}, DType::i32);
    s.dispatch.rows = arena.allocate({rounds, e.local()}, DType::i32);
    s.dispatch.end = arena.allocate({rounds}, DType::i32);
    s.dispatch.table = arena.allocate({kernels::moe_dispatch_table_count(e.ranks, e.experts, rounds)}, DType::i32);
    s.dispatch.round_rows = rows;
    s.dispatch.multiple = e.rows_multiple;
    return s;
  }
  if (e.sorts()) s.sent = allocate_rows(pairs, d, arena);
  if (e.ranks > 1) s.arrived = allocate_rows(rows, d, arena);
  const std::size_t tables = arena.mark();
  s.groups = {arena.allocate({e.local()}, DType::i32), arena.allocate({e.local()}, DType::i32)};
  if (e.sorts()) {
    s.arrival = arena.allocate({rows}, DType::i32);
    s.place = arena.allocate({rows}, DType::i32);
  }
  s.tables = arena.since(tables);
  return s;
}

void ExpertExchange::exchange_counts(const Context& context, const Tensor& counts) const {
  if (d_.experts.ranks == 1) return;
  auto part = context.timer().exchange(Exchange::routing);
  context.executor.run({.op = Collective::all_gather,
                        .group = base::AxisSet::expert,
                        .ranks = d_.experts.ranks,
                        .tensors = {&counts, 1}},
                       [&] {
                         return context.expert_group->all_gather_in_place({&counts, 1}, {}, "routing");
                       });
}

std::int64_t ExpertExchange::begin(const Context& context, const Tensor& counts, const Scratch& scratch) const {
  if (d_.experts.pushes) {
    counts_ = counts;
    const kernels::MoeDispatch dispatch = dispatch_of(scratch);
    context.issue(Kernel::on("moe_rounds", counts).reads(counts).writes(dispatch.first, dispatch.rows, dispatch.table),
                  [&](const tensor::Exec& exec) { kernels::moe_rounds(exec, dispatch); });
    return routes(context) ? d_.experts.most_rounds(d_.tokens_local()) : rounds_.rounds();
  }
  if (routes(context)) {
    std::vector<std::byte> copy;
    const auto values = tensor::read_on_host(context.executor.exec(), counts, copy);
    rounds_.set({reinterpret_cast<const std::int32_t*>(values.data()), values.size() / sizeof(std::int32_t)});
  } else {
    expect_rows();
  }
  return rounds_.rounds();
}

ExpertRound ExpertExchange::round(const Context& context, std::int64_t number, const Scratch& scratch) const {
  if (d_.experts.pushes) {
    const kernels::MoeDispatch& d = scratch.dispatch;
    const auto of_round = [&](const Tensor& t) { return t.slice(number, 1).reshaped({d_.experts.local()}); };
    const std::int64_t mean = number < rounds_.rounds() ? rounds_.round(number).rows : 0;
    return {number,
            routes(context) ? d.round_rows : mean,
            mean,
            {of_round(d.first), of_round(d.rows)},
            d.end.slice(number, 1)};
  }
  if (context.executor.computes()) {
    tensor::write_on_host(context.executor.exec(), scratch.tables, [&](const Tensor& host) {
      const MoveTables moved(scratch.tables, host);
      round_ = rounds_.round(number, {moved(scratch.groups.first), moved(scratch.groups.rows)}, moved(scratch.arrival),
                             moved(scratch.place));
    });
  } else {
    round_ = rounds_.round(number);
  }
  return {number, round_.rows, round_.rows, scratch.groups, {}};
}

ExpertExchange::Parts ExpertExchange::parts_of(Exchange exchange, bool in_parts,
                                               const OverlappedProducts& products) const {
  const ExpertDims& e = d_.experts;
  const std::int64_t count = std::min<std::int64_t>({d_.overlap.expert_chunks, e.local(), kMostParts});
  if (!in_parts || !e.pushes || e.ranks == 1 || !d_.overlap.hidden(exchange)) return {};
  // Measured on two H200: bytes that a multiprocessor copies to all ranks together in a second, of rows of 2 KiB and
  // more; what a device multiplies in BF16. More multiprocessors than kMost copy no faster.
  constexpr double kBytesPerSecond = 40e9, kFlopsPerSecond = 600e12;
  constexpr int kMost = 16;
  const bool one_byte = exchange == Exchange::dispatch && products.in_fp8 && e.sends_fp8;
  const double bytes_of_row =
      static_cast<double>(d_.hidden) * (one_byte ? 1 : static_cast<double>(tensor::size_of(d_.compute)));
  const double flops_of_row = 2.0 * static_cast<double>(products.weights) / (products.in_fp8 ? 2 : 1);
  const double needed = std::ceil(bytes_of_row / kBytesPerSecond * kFlopsPerSecond / flops_of_row);
  const int multiprocessors = static_cast<int>(std::clamp(needed, 1.0, 1.0 * kMost));
  return {.count = static_cast<int>(std::max<std::int64_t>(count, 1)), .multiprocessors = multiprocessors};
}

GroupPart ExpertExchange::part_of(const ExpertRound& round, const Parts& parts, int part, int spared) const {
  const std::int64_t local = d_.experts.local(), first = local * part / parts.count,
                     count = local * (part + 1) / parts.count - first;
  GroupPart experts{.groups = {round.groups.first.slice(first, count), round.groups.rows.slice(first, count)},
                    .first = first,
                    .all = local,
                    .spared = spared};
  experts.tokens = experts.share_of(round.products);
  return experts;
}

ExpertExchange::UnderWay ExpertExchange::start_dispatch(const Context& context, const ExpertRound& round,
                                                        const GroupPart& part, int multiprocessors,
                                                        const WeightedRows& to, const WeightedRows& tokens,
                                                        const Tensor& source, const Scratch& scratch) const {
  return push(context, part, tokens, to, Exchange::dispatch, [&](const tensor::Exec& exec) {
    kernels::moe_push_rows(exec, addresses(context, to.rows), addresses(context, to.weights), dispatch_of(scratch),
                           {round.number, part.first, part.count(), multiprocessors}, tokens.rows, source,
                           to.weights.data == nullptr ? Tensor{} : tokens.weights);
  });
}

ExpertExchange::UnderWay ExpertExchange::start_combine(const Context& context, const ExpertRound& round,
                                                       const GroupPart& part, int multiprocessors, bool weighted,
                                                       const Scratch& scratch) const {
  const WeightedRows from = scratch.output.with(weighted), to = scratch.returned.with(weighted);
  return push(context, part, from, to, Exchange::combine, [&](const tensor::Exec& exec) {
    kernels::moe_push_results(exec, addresses(context, to.rows), addresses(context, to.weights), dispatch_of(scratch),
                              {round.number, part.first, part.count(), multiprocessors}, from.rows, from.weights);
  });
}

void ExpertExchange::zero_padding(const Context& context, const ExpertRound& round, const WeightedRows& to,
                                  const Scratch& scratch) const {
  if (d_.experts.rows_multiple == 1) return;
  context.issue(Kernel::on("moe_zero_padding", to.rows).reads(scratch.dispatch.table), [&](const tensor::Exec& exec) {
    kernels::moe_zero_padding(exec, to.rows, to.weights, dispatch_of(scratch), round.number);
  });
}

void ExpertExchange::dispatch(const Context& context, const ExpertRound& round, const WeightedRows& to,
                              const WeightedRows& tokens, const Tensor& source, const Scratch& scratch) const {
  dispatch(context, round, to, tokens, source, scratch, false, {}, [](const GroupPart&) {});
}

WeightedRows ExpertExchange::results_of(const ExpertRound& round, const Scratch& scratch) const {
  if (!d_.experts.pushes && !d_.experts.sorts())  // they are those of own tokens
    return scratch.returned.slice(round_.send_first[0], round_.sent);
  return scratch.output.slice(0, round.rows);
}

void ExpertExchange::combine(const Context& context, const ExpertRound& round, bool weighted,
                             const Scratch& scratch) const {
  if (!d_.experts.pushes) return combine_by_counts(context, round, weighted, scratch);
  UnderWay push = start_combine(context, round, round.whole(), 0, weighted, scratch);
  context.wait(Exchange::combine, push);
}

template <class Write>
ExpertExchange::UnderWay ExpertExchange::push(const Context& context, const GroupPart& part, const WeightedRows& from,
                                              const WeightedRows& to, Exchange name, const Write& write) const {
  const bool back = name == Exchange::combine;
  const std::int64_t rows = d_.experts.worst ? part.tokens : part.share_of(d_.experts.mean_rows(d_.tokens_local()));
  const std::array<Tensor, 2> moved{Tensor{from.rows.data, {rows, d_.hidden}, from.rows.dtype},
                                    Tensor{from.weights.data, {rows}, DType::fp32}};
  const std::span<const Tensor> tensors = std::span(moved).first(to.weights.data == nullptr ? 1 : 2);
  const At at(context.executor, back ? Linear::fc2 : Linear::fc1);
  if (d_.experts.ranks == 1) {
    Kernel k = Kernel::on(back ? "moe_push_results" : "moe_push_rows", moved[0]);
    for (const Tensor& t : tensors) k = k.reads(t).writes(t);
    context.issue(k, write);
    return {};
  }
  // Only the first part waits: all parts are written to different bytes.
  using PeersRead = comm::Communicator::PeersRead;
  const PeersRead peers_read = part.first == 0 ? PeersRead::waited_for : PeersRead::known;
  operation::Call call{.op = Collective::all_to_all,
                       .group = base::AxisSet::expert,
                       .ranks = d_.experts.ranks,
                       .tensors = tensors,
                       .own = tensors};
  if (d_.overlap.hidden(name)) call.stream = back ? operation::Stream::reduce : operation::Stream::gather;
  auto timed = context.timer().exchange(name, "push");
  return context.executor.issue(call, [&] {
    return context.expert_group->push(
        *context.push_memory, tensors, name_of(name), [&] { write(*context.push_exec); }, peers_read);
  });
}

kernels::MoeDispatch ExpertExchange::dispatch_of(const Scratch& scratch) const {
  kernels::MoeDispatch dispatch = scratch.dispatch;
  dispatch.counts = counts_;
  dispatch.rank = group_rank_;
  return dispatch;
}

kernels::RankAddresses ExpertExchange::addresses(const Context& context, const Tensor& of) const {
  kernels::RankAddresses addresses;
  if (of.data == nullptr) return addresses;
  if (d_.experts.ranks == 1) {
    addresses.of[0] = of.data;
    return addresses;
  }
  const std::ptrdiff_t offset = of.data - context.push_memory->data();
  for (int rank = 0; rank < d_.experts.ranks; ++rank) addresses.of[rank] = context.push_memory->of(rank) + offset;
  return addresses;
}

void ExpertExchange::gather(const Context& context, const WeightedRows& to, const WeightedRows& from,
                            const Tensor& index, std::int64_t per_token) const {
  context.issue(
      Kernel::on("moe_gather_rows", to.rows).reads(to.rows, index).writes(to.rows),
      [&](const tensor::Exec& exec) { kernels::moe_gather_rows(exec, to.rows, from.rows, index, per_token); });
  if (to.weights.data == nullptr) return;
  context.issue(Kernel::on("moe_gather_values", to.weights).reads(to.weights, index).writes(to.weights),
                [&](const tensor::Exec& exec) { kernels::moe_gather_values(exec, to.weights, from.weights, index); });
}

void ExpertExchange::all_to_all(const Context& context, const WeightedRows& out, const WeightedRows& in,
                                bool back) const {
  const auto &sends = back ? round_.receive_rows : round_.send_rows,
             &receives = back ? round_.send_rows : round_.receive_rows;
  const std::array<Tensor, 2> into{out.rows, out.weights}, from{in.rows, in.weights};
  const std::array<comm::Communicator::AllToAllItem, 2> items{
      {{out.rows, in.rows, receives, sends}, {out.weights, in.weights, receives, sends}}};
  // The tensors are counted by memory, not by rows: a rank without rows exchanges as many tensors as the others.
  const std::size_t count = in.weights.data == nullptr ? 1 : 2;
  const Exchange name = back ? Exchange::combine : Exchange::dispatch;
  const At at(context.executor, back ? Linear::fc2 : Linear::fc1);
  // The description's bytes are those that a rank sends; under the worst routing the first rank receives more.
  const bool more_arrive = d_.experts.worst && out.rows.rows() > in.rows.rows();
  auto part = context.timer().exchange(name);
  context.executor.run({.op = Collective::all_to_all,
                        .group = base::AxisSet::expert,
                        .ranks = d_.experts.ranks,
                        .tensors = std::span(more_arrive ? into : from).first(count),
                        .own = std::span(more_arrive ? from : into).first(count)},
                       [&] { return context.expert_group->all_to_all(std::span(items).first(count), name_of(name)); });
}

void ExpertExchange::dispatch_by_counts(const Context& context, const WeightedRows& to, const WeightedRows& tokens,
                                        const Tensor& source, const Scratch& scratch) const {
  const std::int64_t per_token = d_.experts.per_token;
  if (!d_.experts.sorts())
    return gather(context, to, tokens, source.slice(round_.send_first[0], round_.sent), per_token);
  const bool weighted = to.weights.data != nullptr;
  const tensor::DType dtype = tokens.rows.dtype;
  const WeightedRows sent = scratch.sent.of(dtype).with(weighted).slice(0, round_.sent);
  std::int64_t row = 0;
  for (std::size_t rank = 0; rank < round_.send_rows.size(); row += round_.send_rows[rank++])
    gather(context, sent.slice(row, round_.send_rows[rank]), tokens,
           source.slice(round_.send_first[rank], round_.send_rows[rank]), per_token);
  WeightedRows arrived = sent;
  if (d_.experts.ranks > 1) {
    arrived = scratch.arrived.of(dtype).with(weighted).slice(0, round_.received);
    all_to_all(context, arrived, sent, false);
  }
  gather(context, to, arrived, scratch.arrival.slice(0, round_.rows), 1);
}

void ExpertExchange::combine_by_counts(const Context& context, const ExpertRound& round, bool weighted,
                                       const Scratch& scratch) const {
  if (!d_.experts.sorts()) return;
  const WeightedRows returned = scratch.returned.with(weighted), results = results_of(round, scratch);
  const Tensor place = scratch.place.slice(0, round_.received);
  if (d_.experts.ranks == 1)
    return gather(context, returned.slice(round_.send_first[0], round_.sent), results, place, 1);
  const WeightedRows arrived = scratch.arrived.with(weighted).slice(0, round_.received);
  gather(context, arrived, results, place, 1);
  const WeightedRows sent = scratch.sent.with(weighted);
  // A single round brings all rows back, in the order in which they are sorted.
  const bool all = rounds_.rounds() == 1;
  all_to_all(context, (all ? returned : sent).slice(0, round_.sent), arrived, true);
  if (all) return;
  const auto copy = [&](const Tensor& to, const Tensor& from) {
    if (from.data == nullptr) return;
    context.issue(Kernel::on("cast", from).reads(from).writes(to),
                  [&](const tensor::Exec& exec) { kernels::cast(exec, to, from); });
  };
  std::int64_t row = 0;
  for (std::size_t rank = 0; rank < round_.send_rows.size(); row += round_.send_rows[rank++]) {
    const WeightedRows from = sent.slice(row, round_.send_rows[rank]);
    const WeightedRows to = returned.slice(round_.send_first[rank], round_.send_rows[rank]);
    copy(to.rows, from.rows);
    copy(to.weights, from.weights);
  }
}

}  // namespace shard8::model

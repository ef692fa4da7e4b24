// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/sequence_parallel.hpp"

#include <array>
#include <cstring>
#include <span>

namespace shard8::model {

using profile::Exchange;
using tensor::Operand;
using tensor::Tensor;

namespace {

/// The tensors that are communicated when an operand is gathered.
struct Communicated {
  Operand whole;                    ///< what is gathered
  std::array<Tensor, 2> into, own;  ///< data and, if they are communicated, inverse scales
  std::size_t count = 1;

  Communicated(int ranks, const Tensor& memory, const fp8::CastBuffer& cast_memory, const Operand& local) {
    if (local.scaling == tensor::Scaling::none) {
      whole = memory.reshaped({local.rows() * ranks, local.cols()});
    } else {
      const std::int64_t rows = local.rows() * ranks;
      whole = local.transposed ? cast_memory.view_transposed(rows, local.cols(), local.data.dtype, local.scaling)
                               : cast_memory.view(rows, local.cols(), local.data.dtype, local.scaling);
      if (local.scaling == tensor::Scaling::tensor)
        whole.scale_inv = local.scale_inv;
      else
        count = 2;
    }
    into = {whole.data, whole.scale_inv};
    own = {local.data, local.scale_inv};
  }
  std::span<const Tensor> wholes() const { return std::span(into).first(count); }
  std::span<const Tensor> parts() const { return std::span(own).first(count); }
};

/// A collective of the tensor group. `hidden`: the caller runs other kernels before it waits for the collective.
operation::Call call_of(const Context& context, profile::Collective op, std::span<const Tensor> wholes,
                        std::span<const Tensor> own, bool hidden) {
  using operation::Stream;
  const Stream overlapped = op == profile::Collective::all_gather ? Stream::gather : Stream::reduce;
  return {.op = op,
          .ranks = context.tensor_group.size(),
          .stream = hidden ? overlapped : Stream::compute,
          .tensors = wholes,
          .own = own};
}
/// As call_of(), of an exchange by parts.
operation::Call call_of_parts(const Context& context, profile::Collective op, std::span<const Tensor> wholes,
                              std::span<const Tensor> own, const TensorExchange& exchange) {
  operation::Call call = call_of(context, op, wholes, own, true);
  call.by_parts = true;
  call.ring = exchange.route() == comm::Route::ring;
  return call;
}

/// What a device leaves of a reduce-scatter to the next kernel, if no device moves it: as many partial sums as ranks,
/// and the addend. Only the skeleton of the computation reads their addresses. Nothing on hosts, and where they are too
/// many.
std::optional<tensor::PartialSums> planned_partial_sums(const Context& context, const Tensor& local,
                                                        const Tensor& addend) {
  const int ranks = context.tensor_group.size();
  if (!context.device() || (context.executor.communicates() && tensor::kDevice)) return std::nullopt;
  if (ranks + (addend.empty() ? 0 : 1) > tensor::PartialSums::kMost) return std::nullopt;
  tensor::PartialSums partial_sums;
  for (int rank = 0; rank < ranks; ++rank) partial_sums.add(local);
  if (!addend.empty()) partial_sums.add(addend);
  return partial_sums;
}

/// Begins reduce_scatter_tokens.
Scattering start_reduce_scatter(const Context& context, Exchange name, const Tensor& local, Partial partial,
                                const Tensor& addend) {
  if (context.tensor_group.size() == 1) {
    SHARD8_REQUIRE(local.data == partial.matrix.data && addend.empty(),
                   "with one tensor rank the partial sum is the sum");
    return {name, local, {}, {}};
  }
  auto part = context.timer().exchange(name, "start");
  const comm::Communicator::ReduceScatterItem item{local, partial.matrix, addend};
  const std::array<Tensor, 2> own{local, addend};
  auto scatter =
      context.issue(call_of(context, profile::Collective::reduce_scatter, {&item.whole, 1}, own, false), [&] {
        return context.tensor_group.reduce_scatter({&item, 1}, name_of(name));
      });
  return {name, local, std::move(scatter), std::move(partial.memory)};
}

}  // namespace

const Operand& Gathering::wait(const Context& context) {
  context.wait(name_, gather_);
  return whole_;
}

Gathering start_gather_tokens(const Context& context, Exchange name, const Tensor& whole,
                              const fp8::CastBuffer& whole_cast, const Operand& local, bool hidden, Lease memory) {
  const int ranks = context.tensor_group.size();
  if (ranks == 1) return {name, local, {}, std::move(memory)};
  auto part = context.timer().exchange(name, "start");
  const Communicated tensors(ranks, whole, whole_cast, local);
  SHARD8_REQUIRE(!local.transposed || tensors.count == 1, "block scales of a transposed matrix cannot be gathered");
  using OwnPart = comm::Communicator::OwnPart;
  const OwnPart own_part = hidden ? OwnPart::returned : OwnPart::copied;
  const comm::Communicator& group = context.tensor_group;
  return {name, tensors.whole,
          context.issue(call_of(context, profile::Collective::all_gather, tensors.wholes(), tensors.parts(), hidden),
                        [&] {
                          if (local.transposed && tensor::kDevice)
                            return group.all_gather_columns(tensors.whole.data, local.data, whole, name_of(name),
                                                            own_part);
                          if (local.transposed) {  // hosts carry the bytes of a device's step, and nobody reads them
                            const Tensor all = tensors.whole.data.reshaped({tensors.whole.data.count()});
                            const Tensor own = local.data.reshaped({local.data.count()});
                            return group.all_gather_in_place({&all, 1}, {&own, 1}, name_of(name), own_part);
                          }
                          return group.all_gather_in_place(tensors.wholes(), tensors.parts(), name_of(name), own_part);
                        }),
          std::move(memory)};
}

GatheringByParts::GatheringByParts(const Context& context, const TensorExchange& exchange, const Tensor& whole,
                                   const fp8::CastBuffer& whole_cast, const Operand& local, Lease memory,
                                   bool read_whole)
    : name_(exchange.name), local_(local), read_whole_(read_whole), memory_(std::move(memory)) {
  auto part = context.timer().exchange(name_, "push");
  const Communicated tensors(context.tensor_group.size(), whole, whole_cast, local);
  whole_ = tensors.whole;
  parts_ = context.issue(
      call_of_parts(context, profile::Collective::all_gather, tensors.wholes(), tensors.parts(), exchange), [&] {
        return context.tensor_group.all_gather_parts(tensors.wholes(), tensors.parts(), name_of(name_),
                                                     exchange.route(), read_whole);
      });
}

Operand GatheringByParts::wait(const Context& context, int rank) {
  auto part = context.timer().exchange(name_, "wait", rank);
  Operand tokens = local_;
  if (!context.executor.communicates()) return tokens;
  parts_.under_way.await(rank);
  tokens.data = parts_.under_way.part(0, rank);
  const bool blocks = local_.scaling != tensor::Scaling::none && local_.scaling != tensor::Scaling::tensor;
  if (blocks) tokens.scale_inv = parts_.under_way.part(1, rank);
  return tokens;
}

Operand GatheringByParts::wait(const Context& context, int first, int count) {
  SHARD8_REQUIRE(context.device(), "on hosts the tokens of {} ranks may lie in the memory of each", count);
  for (int rank = first + count; rank-- > first;) wait(context, rank);
  return whole_.slice(first * local_.rows(), count * local_.rows());
}

void GatheringByParts::finish(const Context& context) {
  auto part = context.timer().exchange(name_, "finish");
  finish_parts(context);
}

void GatheringByParts::finish_parts(const Context& context) {
  if (context.executor.communicates()) parts_.under_way.finish();
  context.executor.waited(parts_.number);
}

void GatheringByParts::finish(const Context& context, const Tensor& whole) {
  SHARD8_REQUIRE(read_whole_, "a gather by parts whose whole was not asked for has no rows of this rank there");
  auto part = context.timer().exchange(name_);
  // On devices, and with messages, the parts lie there.
  const bool copies = context.executor.computes() && context.executor.communicates() && !context.device();
  for (int k = 0; copies && k < context.tensor_group.size(); ++k) {
    const int rank = parts_.under_way.arrival(k);
    parts_.under_way.await(rank);
    const Tensor from = parts_.under_way.part(0, rank), to = whole.slice(rank * local_.rows(), local_.rows());
    if (from.data != to.data) std::memcpy(to.data, from.data, from.bytes());
  }
  finish_parts(context);
}

const tensor::PartialSums& Scattering::wait(const Context& context) {
  context.wait(name_, scatter_);
  return sum_;
}

Partial::Partial(const Context& context, Exchange name, const Tensor& scratch, const Tensor& local) : matrix(local) {
  const int ranks = context.tensor_group.size();
  if (ranks == 1) return;
  matrix = scratch.reshaped({local.rows() * ranks, local.cols()});
  memory = context.lease(name_of(name), {matrix});
}

void reduce_scatter_tokens(const Context& context, Exchange name, const Tensor& local, Partial partial,
                           const Tensor& addend) {
  start_reduce_scatter(context, name, local, std::move(partial), addend).wait(context);
}

Scattering start_scatter_partial_sums(const Context& context, const TensorExchange& exchange, const Tensor& local,
                                      Partial partial) {
  const Exchange name = exchange.name;
  if (!exchange.hidden()) return start_reduce_scatter(context, name, local, std::move(partial), {});
  auto part = context.timer().exchange(name, "start");
  tensor::PartialSums sum = local;
  auto scatter = context.issue(
      call_of(context, profile::Collective::reduce_scatter, {&partial.matrix, 1}, {&local, 1}, true), [&] {
        return context.tensor_group.reduce_scatter_partial_sums({local, partial.matrix}, sum, name_of(name));
      });
  if (const auto planned = planned_partial_sums(context, local, {})) sum = *planned;
  return {name, sum, std::move(scatter), std::move(partial.memory)};
}

ScatteringByParts::ScatteringByParts(const Context& context, const TensorExchange& exchange, const Tensor& local,
                                     Partial partial, const Tensor& addend)
    : exchange_(exchange),
      local_(local),
      whole_(partial.matrix),
      addend_(addend),
      tokens_(local.rows()),
      memory_(std::move(partial.memory)) {
  auto part = context.timer().exchange(exchange_.name, "begin");
  if (!context.executor.communicates()) return;  // recorded where the first rows are given
  begin(context);
  whole_ = parts_.under_way.whole();
}

void ScatteringByParts::begin(const Context& context) {
  begun_ = true;
  const comm::Communicator::ReduceScatterItem item{local_, whole_, addend_};
  const std::array<Tensor, 2> own{local_, addend_};
  parts_ = context.issue(
      call_of_parts(context, profile::Collective::reduce_scatter, {&item.whole, 1}, own, exchange_),
      [&] { return context.tensor_group.reduce_scatter_parts(item, name_of(exchange_.name), exchange_.route()); });
}

void ScatteringByParts::give(const Context& context, int rank, std::int64_t first, std::int64_t count) {
  auto part = context.timer().exchange(exchange_.name, "push", rank);
  if (!begun_) begin(context);
  if (!context.executor.communicates()) return;
  const bool in_pieces = count != tokens_ && tensor::kDevice;
  if (in_pieces)
    parts_.under_way.give(rank, first, count);
  else if (first + count == tokens_)  // hosts that carry a device's step send all rows with the last piece
    parts_.under_way.give(rank);
}

void ScatteringByParts::finish(const Context& context) {
  auto part = context.timer().exchange(exchange_.name, "finish");
  if (context.executor.communicates()) parts_.under_way.finish();
  context.executor.waited(parts_.number);
}

HeldSum ScatteringByParts::finish_partial_sums(const Context& context) && {
  auto part = context.timer().exchange(exchange_.name, "finish");
  std::optional<tensor::PartialSums> partial_sums = planned_partial_sums(context, local_, addend_);
  if (context.executor.communicates())
    if (auto sums = parts_.under_way.finish_partial_sums()) partial_sums = std::move(sums);
  context.executor.waited(parts_.number);
  if (!partial_sums) return local_;
  memory_.hold(context.leases, "a residual", addend_);
  return {tensor::SumOfPartials(*partial_sums, local_), std::move(memory_)};
}

}  // namespace shard8::model

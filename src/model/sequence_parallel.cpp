// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/sequence_parallel.hpp"

#include <array>
#include <span>

namespace shard8::model {

using tensor::Operand;
using tensor::Tensor;

Tensor gather_tokens(const Context& context, const Tensor& whole, const Tensor& local) {
  return start_gather_tokens(context, whole, {}, local).wait(context).data;
}

const Operand& Gathering::wait(const Context& context) {
  if (request_.active()) {
    auto part = context.timer.part(profile::Part::tensor_comm);
    request_.wait();
  }
  return whole_;
}

Gathering start_gather_tokens(const Context& context, const Tensor& whole, const fp8::CastBuffer& whole_cast,
                              const Operand& local) {
  const int ranks = context.tensor_group.size();
  if (ranks == 1) return {local, {}};
  auto part = context.timer.part(profile::Part::tensor_comm);
  if (local.scaling == tensor::Scaling::none) {
    const Tensor target = whole.reshaped({local.rows() * ranks, local.cols()});
    return {target, context.tensor_group.all_gather_in_place({&target, 1}, {&local.data, 1})};
  }
  Operand target = whole_cast.view(local.rows() * ranks, local.cols(), local.data.dtype, local.scaling);
  const bool one_scale = local.scaling == tensor::Scaling::tensor;
  if (one_scale) target.scale_inv = local.scale_inv;
  const std::array wholes{target.data, target.scale_inv}, own{local.data, local.scale_inv};
  const std::size_t travelling = one_scale ? 1 : 2;
  return {target, context.tensor_group.all_gather_in_place(std::span(wholes).first(travelling),
                                                           std::span(own).first(travelling))};
}

void reduce_scatter_tokens(const Context& context, const Tensor& local, const Tensor& partial, const Tensor& addend) {
  comm::Request scatter = start_reduce_scatter_tokens(context, local, partial, addend);
  wait_scattered(context, scatter);
}

comm::Request start_reduce_scatter_tokens(const Context& context, const Tensor& local, const Tensor& partial,
                                          const Tensor& addend) {
  if (context.tensor_group.size() == 1) {
    SHARD8_REQUIRE(local.data == partial.data && addend.empty(), "with one tensor rank the partial sum is the sum");
    return {};
  }
  auto part = context.timer.part(profile::Part::tensor_comm);
  const comm::Communicator::ReduceScatterItem item{local, partial, addend};
  return context.tensor_group.reduce_scatter({&item, 1});
}

void wait_scattered(const Context& context, comm::Request& scatter) {
  if (!scatter.active()) return;
  auto part = context.timer.part(profile::Part::tensor_comm);
  scatter.wait();
}

Tensor partial_of(const Context& context, const Tensor& scratch, const Tensor& local) {
  if (context.tensor_group.size() == 1) return local;
  return scratch.reshaped({local.rows() * context.tensor_group.size(), local.cols()});
}

}  // namespace shard8::model

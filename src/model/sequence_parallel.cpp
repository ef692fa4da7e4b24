// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/sequence_parallel.hpp"

#include <array>
#include <span>

#include "kernels/elementwise.hpp"

namespace shard8::model {

using tensor::Operand;
using tensor::Tensor;

Tensor gather_tokens(const Context& context, const Tensor& whole, const Tensor& local) {
  if (context.tensor_group.size() == 1) return local;
  auto part = context.timer.part(profile::Part::tensor_comm);
  const Tensor target = whole.reshaped({local.rows() * context.tensor_group.size(), local.cols()});
  context.tensor_group.all_gather(target, local);
  return target;
}

Operand gather_tokens(const Context& context, const Tensor& whole, const fp8::CastBuffer& whole_cast,
                      const Operand& local) {
  if (local.scaling == tensor::Scaling::none) return gather_tokens(context, whole, local.data);
  const int ranks = context.tensor_group.size();
  if (ranks == 1) return local;
  auto part = context.timer.part(profile::Part::tensor_comm);
  Operand target = whole_cast.view(local.rows() * ranks, local.cols(), local.data.dtype, local.scaling);
  const auto place = [&](const Tensor& all, const Tensor& own) {
    kernels::cast(context.exec, all.slice(context.tensor_group.rank() * own.rows(), own.rows()), own);
    return all;
  };
  const bool one_scale = local.scaling == tensor::Scaling::tensor;
  std::array<Tensor, 2> travelling{place(target.data, local.data)};
  if (one_scale)
    target.scale_inv = local.scale_inv;
  else
    travelling[1] = place(target.scale_inv, local.scale_inv);
  context.tensor_group.all_gather_in_place(std::span(travelling).first(one_scale ? 1 : 2)).wait();
  return target;
}

void reduce_scatter_tokens(const Context& context, const Tensor& local, const Tensor& partial) {
  if (context.tensor_group.size() == 1) {
    SHARD8_REQUIRE(local.data == partial.data, "with one tensor rank the partial sum is the sum");
    return;
  }
  auto part = context.timer.part(profile::Part::tensor_comm);
  context.tensor_group.reduce_scatter(local, partial);
}

Tensor partial_of(const Context& context, const Tensor& scratch, const Tensor& local) {
  if (context.tensor_group.size() == 1) return local;
  return scratch.reshaped({local.rows() * context.tensor_group.size(), local.cols()});
}

}  // namespace shard8::model

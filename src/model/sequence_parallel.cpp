// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/sequence_parallel.hpp"

#include <array>
#include <span>

namespace shard8::model {

using tensor::Operand;
using tensor::Tensor;

Tensor gather_tokens(const Context& context, const Tensor& whole, const Tensor& local) {
  if (context.tensor_group.size() == 1) return local;
  auto part = context.timer.part(profile::Part::tensor_comm);
  const Tensor target = whole.reshaped({local.rows() * context.tensor_group.size(), local.cols()});
  context.tensor_group.all_gather_in_place({&target, 1}, {&local, 1}).wait();
  return target;
}

Operand gather_tokens(const Context& context, const Tensor& whole, const fp8::CastBuffer& whole_cast,
                      const Operand& local) {
  if (local.scaling == tensor::Scaling::none) return gather_tokens(context, whole, local.data);
  const int ranks = context.tensor_group.size();
  if (ranks == 1) return local;
  auto part = context.timer.part(profile::Part::tensor_comm);
  Operand target = whole_cast.view(local.rows() * ranks, local.cols(), local.data.dtype, local.scaling);
  const bool one_scale = local.scaling == tensor::Scaling::tensor;
  if (one_scale) target.scale_inv = local.scale_inv;
  const std::array wholes{target.data, target.scale_inv}, own{local.data, local.scale_inv};
  const std::size_t travelling = one_scale ? 1 : 2;
  context.tensor_group.all_gather_in_place(std::span(wholes).first(travelling), std::span(own).first(travelling))
      .wait();
  return target;
}

void reduce_scatter_tokens(const Context& context, const Tensor& local, const Tensor& partial, const Tensor& addend) {
  if (context.tensor_group.size() == 1) {
    SHARD8_REQUIRE(local.data == partial.data && addend.empty(), "with one tensor rank the partial sum is the sum");
    return;
  }
  auto part = context.timer.part(profile::Part::tensor_comm);
  context.tensor_group.reduce_scatter(local, partial, addend);
}

Tensor partial_of(const Context& context, const Tensor& scratch, const Tensor& local) {
  if (context.tensor_group.size() == 1) return local;
  return scratch.reshaped({local.rows() * context.tensor_group.size(), local.cols()});
}

}  // namespace shard8::model

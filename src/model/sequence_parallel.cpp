// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/sequence_parallel.hpp"

namespace shard8::model {

using tensor::Tensor;

Tensor gather_tokens(const Context& context, const Tensor& whole, const Tensor& local) {
  if (context.tensor_group.size() == 1) return local;
  auto part = context.timer.part(profile::Part::tensor_comm);
  const Tensor target = whole.reshaped({local.rows() * context.tensor_group.size(), local.cols()});
  context.tensor_group.all_gather(target, local);
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

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "optim/gradient_norm.hpp"

#include <cmath>

#include "kernels/squares.hpp"

namespace shard8::optim {

using comm::Communicator;
using operation::Executor;
using operation::Group;
using tensor::Tensor;

namespace {

Held held(const fsdp::WeightForms& weight) {
  return weight.sharing.summed_last().empty() ? Held::in_parts : Held::shared;
}

}  // namespace

std::vector<Tensor> replicated_gradients(const fsdp::UnitBuffers& buffers) {
  std::vector<Tensor> shared;
  for (std::size_t u = 0; u < buffers.units().size(); ++u)
    for (const fsdp::WeightForms& weight : buffers.weights(static_cast<int>(u)))
      if (held(weight) == Held::shared) shared.push_back(weight.gradient);
  return shared;
}

void sum_replicated_gradients(Executor& executor, std::span<const Tensor> gradients, const Communicator& group) {
  if (group.size() == 1) return;
  executor.run({.op = profile::Collective::all_reduce,
                .group = base::kSameSequences,
                .ranks = group.size(),
                .tensors = gradients},
               [&] { return group.all_reduce(gradients, Communicator::Reduce::sum); });
}

void add_squares(Executor& executor, const Tensor& total, const fsdp::UnitBuffers& buffers, int unit, Held which) {
  const auto& weights = buffers.weights(unit);
  for (std::size_t p = 0; p < weights.size(); ++p) {
    if (held(weights[p]) != which || !buffers.counts(unit, p)) continue;
    const Tensor& g = weights[p].gradient;
    executor.issue(operation::Kernel{"sum_of_squares", g.rows(), g.cols(), g.dtype, g.dtype}.reads(g),
                   [&](const tensor::Exec& exec) { kernels::sum_of_squares(exec, total, g); });
  }
}

double norm_of(Executor& executor, const Tensor& total, const Communicator& model_group) {
  auto wait = executor.timer().phase(profile::Phase::reduce_wait, "gradient norm");
  base::ExactSum sum;
  executor.run_on_hosts(Group::model, model_group.size(), sizeof(sum), [&] {
    sum = executor.value<base::ExactSum>(total);
    sum.normalise();
    if (executor.communicates()) model_group.all_reduce(sum.words(), Communicator::Reduce::sum);
  });
  return std::sqrt(sum.value());
}

}  // namespace shard8::optim

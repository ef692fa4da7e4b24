// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "optim/gradient_norm.hpp"

#include <array>
#include <cmath>

#include "kernels/elementwise.hpp"

namespace shard8::optim {

using comm::Communicator;
using tensor::Tensor;

void sum_replicated_gradients(const fsdp::UnitBuffers& buffers, const Replicated& replicated,
                              const Communicator& tensor_group) {
  if (tensor_group.size() == 1) return;
  std::vector<Tensor> shared;
  for (std::size_t u = 0; u < replicated.size(); ++u)
    for (std::size_t p = 0; p < replicated[u].size(); ++p)
      if (replicated[u][p]) shared.push_back(buffers.gradient(static_cast<int>(u))[p]);
  tensor_group.all_reduce(shared, Communicator::Reduce::sum).wait();
}

double gradient_norm(const tensor::Exec& exec, const fsdp::UnitBuffers& buffers, const Replicated& replicated,
                     const Communicator& model_group, int tensor_rank, profile::StepTimer& timer) {
  auto optimizer = timer.phase(profile::Phase::optimizer);
  double sum = 0;
  for (std::size_t u = 0; u < replicated.size(); ++u)
    for (std::size_t p = 0; p < replicated[u].size(); ++p)
      if (tensor_rank == 0 || !replicated[u][p])
        sum += kernels::sum_of_squares(exec, buffers.gradient(static_cast<int>(u))[p]);
  std::array<double, 1> total{sum};
  auto wait = timer.phase(profile::Phase::reduce_wait);
  model_group.all_reduce(total, Communicator::Reduce::sum);
  return std::sqrt(total[0]);
}

}  // namespace shard8::optim

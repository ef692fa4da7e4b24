// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "optim/adamw.hpp"

#include <algorithm>

#include "kernels/adamw.hpp"
#include "kernels/elementwise.hpp"

namespace shard8::optim {

using tensor::MemoryKind;
using tensor::Tensor;

Adamw::Adamw(const deck::OptimizerConfig& config, const fsdp::UnitBuffers& buffers, tensor::ArenaSet& arenas)
    : config_(config), buffers_(buffers) {
  const auto moments = config.moments == deck::FloatType::bf16 ? tensor::DType::bf16 : tensor::DType::fp32;
  const auto like_master = [&](int unit) {
    std::vector<Tensor> tensors;
    for (const Tensor& p : buffers.master(unit))
      tensors.push_back(arenas[MemoryKind::optimizer].allocate(p.shape, moments));
    return tensors;
  };
  for (int u = 0; u < static_cast<int>(buffers.units().size()); ++u) {
    first_moment_.push_back(like_master(u));
    second_moment_.push_back(like_master(u));
  }
}

void Adamw::prepare(const tensor::Exec& exec) const {
  for (const auto* moments : {&first_moment_, &second_moment_})
    for (const auto& unit : *moments)
      for (const Tensor& t : unit) kernels::fill_zero(exec, t);
}

void Adamw::step(const tensor::Exec& exec, int unit, std::int64_t step, double learning_rate, double gradient_scale,
                 const Outputs& outputs) const {
  kernels::AdamwScalars scalars;
  scalars.lr = learning_rate;
  scalars.beta1 = config_.beta1;
  scalars.beta2 = config_.beta2;
  scalars.eps = config_.eps;
  scalars.gradient_scale = gradient_scale;
  scalars.step = step;
  const auto u = static_cast<std::size_t>(unit);
  for (std::size_t p = 0; p < first_moment_[u].size(); ++p) {
    scalars.weight_decay = buffers_.units()[u].parameters[p].vector ? 0 : config_.weight_decay;
    const Tensor remainder = buffers_.options().master_remainder ? buffers_.remainder(unit)[p] : Tensor{};
    kernels::adamw_step(
        exec,
        {buffers_.master(unit)[p], remainder, first_moment_[u][p], second_moment_[u][p], buffers_.gradient(unit)[p]},
        scalars, outputs(unit, static_cast<int>(p)), buffers_.options().compute == tensor::DType::bf16);
  }
}

double Adamw::clip_scale(double gradient_norm) const {
  if (config_.clip <= 0) return 1;
  return std::min(1.0, config_.clip / (gradient_norm + 1e-6));
}

}  // namespace shard8::optim

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "optim/adamw.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <numeric>
#include <span>

#include "kernels/adamw.hpp"
#include "kernels/elementwise.hpp"

namespace shard8::optim {

using tensor::DType;
using tensor::MemoryKind;
using tensor::Tensor;

double learning_rate(const deck::OptimizerConfig& c, std::int64_t step) {
  if (step < c.warmup) return c.lr * static_cast<double>(step + 1) / static_cast<double>(c.warmup);
  if (step >= c.decay_steps) return c.min_lr;
  const double done = static_cast<double>(step - c.warmup) / static_cast<double>(c.decay_steps - c.warmup);
  return c.min_lr + (c.lr - c.min_lr) / 2 * (1 + std::cos(std::numbers::pi * done));
}

Adamw::Adamw(const deck::OptimizerConfig& config, const fsdp::UnitBuffers& buffers, tensor::ArenaSet& arenas)
    : config_(config), buffers_(buffers) {
  const auto moments = config.moments == deck::FloatType::bf16 ? DType::bf16 : DType::fp32;
  const auto allocate_moments = [&](int unit) {
    std::vector<Tensor> tensors;
    for (const fsdp::WeightForms& weight : buffers.weights(unit))
      tensors.push_back(arenas[MemoryKind::optimizer].allocate(weight.master.shape, moments));
    return tensors;
  };
  for (int u = 0; u < static_cast<int>(buffers.units().size()); ++u) {
    first_moment_.push_back(allocate_moments(u));
    second_moment_.push_back(allocate_moments(u));
  }
  allocate_squares(arenas[MemoryKind::buffers]);
}

void Adamw::allocate_squares(tensor::Arena& arena) {
  const auto bytes_of = [&](std::size_t unit, std::size_t parameter) {
    const int u = static_cast<int>(unit);
    if (clips() || !buffers_.counts(u, parameter)) return std::int64_t{0};
    const Tensor& master = buffers_.weights(u)[parameter].master;
    return kernels::square_segments(master.rows(), master.cols()) * static_cast<std::int64_t>(sizeof(double));
  };
  const auto units = first_moment_.size();
  std::vector<std::int64_t> bytes(units);
  for (std::size_t u = 0; u < units; ++u)
    for (std::size_t p = 0; p < first_moment_[u].size(); ++p) bytes[u] += bytes_of(u, p);
  const Tensor all = arena.allocate({std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0})}, DType::u8);
  std::int64_t first = 0;
  for (std::size_t u = 0; u < units; first += bytes[u++]) {
    unit_squares_.push_back(all.slice(first, bytes[u]));
    auto& of_unit = squares_.emplace_back();
    std::int64_t next = 0;
    for (std::size_t p = 0; p < first_moment_[u].size(); ++p) {
      of_unit.push_back(unit_squares_[u].slice(next, bytes_of(u, p)));
      next += bytes_of(u, p);
    }
  }
}

void Adamw::prepare(const tensor::Exec& exec) const {
  for (const auto* moments : {&first_moment_, &second_moment_})
    for (const auto& unit : *moments)
      for (const Tensor& t : unit) kernels::fill_zero(exec, t);
}

void Adamw::step(operation::Executor& executor, int unit, std::int64_t step, double learning_rate,
                 double gradient_scale, const Outputs& outputs) const {
  kernels::AdamwScalars scalars;
  scalars.lr = learning_rate;
  scalars.beta1 = config_.beta1;
  scalars.beta2 = config_.beta2;
  scalars.eps = config_.eps;
  scalars.weight_decay = config_.weight_decay;
  scalars.gradient_scale = gradient_scale;
  scalars.step = step;
  const auto u = static_cast<std::size_t>(unit);
  std::array<kernels::AdamwUpdate, kernels::kAdamwAtOnce> updates;
  std::size_t count = 0;
  const operation::Kernel none{"adamw_step", 0, 1, DType::fp32, buffers_.options().master()};
  operation::Kernel kernel = none;
  const auto issue = [&] {
    executor.issue(kernel, [&](const tensor::Exec& exec) {
      kernels::adamw_step_each(exec, std::span(updates).first(count), scalars,
                               buffers_.options().compute == DType::bf16);
    });
    count = 0;
    kernel = none;
  };
  const auto add = [&](std::size_t p, const fsdp::GroupRows& part) {
    const fsdp::WeightForms& weight = buffers_.weights(unit)[p];
    const auto rows = [&](const Tensor& all) { return all.empty() ? all : all.slice(part.first, part.rows); };
    kernels::AdamwUpdate& update = updates[count++];
    auto& t = update.tensors;
    t = {rows(weight.master),        rows(weight.remainder), rows(first_moment_[u][p]),
         rows(second_moment_[u][p]), rows(weight.gradient),  squares_of(unit, p, part)};
    update.weights = outputs(unit, static_cast<int>(p), part);
    update.decays = !weight.vector;
    kernel.rows += t.master.count();
    std::uint64_t both = 0;  // bytes that are read and written
    for (const Tensor* state : {&t.master, &t.remainder, &t.m, &t.v}) both += operation::bytes_of(*state);
    kernel.read += both + operation::bytes_of(t.g);
    kernel.written += both + operation::bytes_of(update.weights.quantized.data);
    if (count == updates.size()) issue();
  };
  for (std::size_t p = 0; p < first_moment_[u].size(); ++p)
    for (const fsdp::GroupRows& part : buffers_.weights(unit)[p].groups) add(p, part);
  issue();  // nothing if no update is left
}

Tensor Adamw::squares_of(int unit, std::size_t parameter, const fsdp::GroupRows& part) const {
  const Tensor& all = squares_[index(unit)][parameter];
  if (all.empty()) return all;
  const std::int64_t row =
      kernels::square_segments(1, buffers_.weights(unit)[parameter].cols) * static_cast<std::int64_t>(sizeof(double));
  return all.slice(part.first * row, part.rows * row);
}

void Adamw::add_squares(operation::Executor& executor, const Tensor& totals) const {
  for (std::size_t u = 0; u < unit_squares_.size(); ++u) {
    const operation::At at(executor, static_cast<int>(u));
    const Tensor& squares = unit_squares_[u];
    const Tensor total = totals.slice(static_cast<std::int64_t>(u), 1);
    const auto parts = squares.count() / static_cast<std::int64_t>(sizeof(double));
    executor.issue(operation::Kernel{"add_square_parts", parts, 1, DType::fp32, DType::fp32}.reads(squares),
                   [&](const tensor::Exec& exec) { kernels::add_square_parts(exec, total, squares); });
  }
}

double Adamw::clip_scale(double gradient_norm) const {
  if (config_.clip <= 0) return 1;
  return std::min(1.0, config_.clip / (gradient_norm + 1e-6));
}

using comm::Communicator;
using operation::Executor;
using operation::Group;

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

void add_squares(Executor& executor, const Tensor& totals, const fsdp::UnitBuffers& buffers, int unit, Held which) {
  const Tensor total = totals.slice(unit, 1);
  const auto& weights = buffers.weights(unit);
  for (std::size_t p = 0; p < weights.size(); ++p) {
    if (held(weights[p]) != which || !buffers.counts(unit, p)) continue;
    const Tensor& g = weights[p].gradient;
    executor.issue(operation::Kernel{"sum_of_squares", g.rows(), g.cols(), g.dtype, g.dtype}.reads(g),
                   [&](const tensor::Exec& exec) { kernels::sum_of_squares(exec, total, g); });
  }
}

double StepNorms::sum(Executor& executor, const Tensor& totals, const Communicator& model_group) {
  auto wait = executor.timer().phase(profile::Phase::reduce_wait, "gradient norm");
  using base::ExactSum;
  static_assert(sizeof(ExactSum) == ExactSum::kWords * sizeof(std::uint64_t));
  const std::span<std::uint64_t> words(sums_.front().words().data(), sums_.size() * ExactSum::kWords);
  executor.run_on_hosts(Group::model, model_group.size(), words.size_bytes(), [&] {
    executor.read(std::span(sums_), totals);
    for (ExactSum& sum : sums_) sum.normalise();
    if (executor.communicates()) model_group.all_reduce(words, Communicator::Reduce::sum);
  });
  ExactSum all;
  for (std::size_t u = 0; u < sums_.size(); ++u) norms_[u] = std::sqrt(sums_[u].value());
  for (std::size_t u = 0; u < units_; ++u) {
    sums_[u].normalise();
    for (std::size_t i = 0; i < ExactSum::kWords; ++i) all.words()[i] += sums_[u].words()[i];
  }
  return std::sqrt(all.value());
}

}  // namespace shard8::optim

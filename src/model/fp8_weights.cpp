// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/fp8_weights.hpp"

#include <array>
#include <span>

#include "kernels/elementwise.hpp"
#include "kernels/quantize.hpp"

namespace shard8::model {

using fp8::Role;
using fp8::Site;
using fsdp::CopyTensors;
using tensor::Operand;
using tensor::Scaling;
using tensor::Tensor;

namespace {

/// Collects the casts of a unit's parameters and runs them together.
class Casts {
 public:
  explicit Casts(const tensor::Exec& exec) : exec_(exec) {}
  void add(const kernels::Cast& cast) {
    if (count_ == list_.size()) run();
    list_[count_++] = cast;
  }
  void run() {
    kernels::cast_each(exec_, std::span(list_).first(count_));
    count_ = 0;
  }

 private:
  const tensor::Exec& exec_;
  std::array<kernels::Cast, kernels::kCastsAtOnce> list_;
  std::size_t count_ = 0;
};

}  // namespace

Fp8Weights::Fp8Weights(const tensor::Exec& exec, const WeightFormat& format, const std::vector<UnitSpec>& units,
                       const fsdp::UnitBuffers& buffers, fp8::ScalingState& state)
    : exec_(exec), format_(format), buffers_(buffers), state_(state) {
  for (const UnitSpec& unit : units) {
    auto& sites = sites_.emplace_back();
    for (const ParameterSpec& p : unit.parameters) sites.push_back(format.site(unit, p));
  }
}

Site Fp8Weights::site(int unit, int parameter) const {
  return sites_[static_cast<std::size_t>(unit)][static_cast<std::size_t>(parameter)];
}

template <class F>
void Fp8Weights::for_each_weight(const F& f) const {
  for (std::size_t u = 0; u < sites_.size(); ++u)
    for (std::size_t p = 0; p < sites_[u].size(); ++p)
      if (sites_[u][p].on()) f(sites_[u][p], static_cast<int>(u), p);
}

void Fp8Weights::initialise(const comm::Communicator& model_group) {
  if (!format_.recipe.on()) return;
  if (format_.recipe.per_tensor()) {
    const auto options = format_.recipe.cast_options(nullptr);
    for_each_weight([&](const Site& s, int unit, std::size_t p) {
      kernels::amax(exec_, state_.amax(s), buffers_.master(unit)[p], options);
    });
    const Tensor amaxes = state_.weight_amaxes();
    model_group.all_reduce({&amaxes, 1}, comm::Communicator::Reduce::max).wait();
    if (format_.recipe.delayed())
      state_.begin_weight_history(exec_);
    else
      state_.scales_of_weights(exec_);
  }
  if (format_.primary_fp8) store_all(false);
}

kernels::Outputs Fp8Weights::update_outputs(int unit, int parameter) const {
  kernels::Outputs outputs;
  const Site s = site(unit, parameter);
  if (!s.on() || !format_.recipe.per_tensor()) return outputs;
  outputs.amax = state_.amax(s);
  if (!format_.recipe.delayed() || !format_.primary_fp8) return outputs;
  const CopyTensors& stored = buffers_.stored(unit)[static_cast<std::size_t>(parameter)];
  outputs.quantized = operand(s, stored.forward, Scaling::tensor);
  outputs.scale = state_.scale(s);
  outputs.counts = state_.counts(s);
  return outputs;
}

void Fp8Weights::reduce_amaxes(const comm::Communicator& model_group) const {
  if (format_.recipe.kind != deck::Recipe::current) return;
  const Tensor amaxes = state_.weight_amaxes();
  model_group.all_reduce({&amaxes, 1}, comm::Communicator::Reduce::max).wait();
}

void Fp8Weights::after_update() {
  if (format_.recipe.delayed() && format_.primary_fp8)  // the optimizer's kernel has cast them
    for_each_weight(
        [&](const Site& s, int unit, std::size_t p) { state_.count_elements(s, buffers_.master(unit)[p].count()); });
  if (!format_.recipe.on() || format_.recipe.delayed()) return;
  if (format_.recipe.per_tensor()) state_.scales_of_weights(exec_);
  if (format_.primary_fp8) store_all(true);
}

void Fp8Weights::store_all(bool rewritten) const {
  for_each_weight([&](const Site& s, int unit, std::size_t p) {
    quantize(s, buffers_.stored(unit)[p], buffers_.master(unit)[p], rewritten);
  });
}

Operand Fp8Weights::operand(const Site& s, const std::vector<Tensor>& pieces, Scaling scaling) const {
  if (pieces.empty()) return {};
  return {pieces[0], scaling == Scaling::tensor ? state_.weight_scale_inv(s) : pieces[1], scaling};
}

void Fp8Weights::quantize(const Site& s, const CopyTensors& out, const Tensor& source, bool rewritten) const {
  const fp8::Recipe& recipe = format_.recipe;
  auto options = recipe.cast_options(state_.counts(s));
  options.compare_scales = rewritten;
  const bool both = !out.forward.empty() && !out.backward.empty();
  state_.count_elements(s, both ? 2 * source.count() : source.count());
  const Operand forward = operand(s, out.forward, recipe.by_rows(Role::weight));
  const Operand backward = operand(s, out.backward, recipe.by_columns(Role::weight));
  if (recipe.per_tensor())
    kernels::quantize(exec_, forward, {}, source, state_.scale(s), options);
  else if (both)
    kernels::quantize_blocks(exec_, forward, backward, source, options);
  else
    kernels::quantize_blocks(exec_, out.forward.empty() ? backward : forward, source, options);
}

fsdp::GatherHooks Fp8Weights::hooks() const {
  fsdp::GatherHooks hooks;
  hooks.before = [this](int unit, std::span<const fsdp::GatherHooks::Own> own) {
    Casts casts(exec_);
    for (const auto& item : own) {
      const Tensor& master = buffers_.master(unit)[static_cast<std::size_t>(item.parameter)];
      const Site s = site(unit, item.parameter);
      if (s.on() && format_.gather_fp8)
        quantize(s, item.travel, master, false);
      else
        casts.add({item.travel.forward.front(), master});
    }
    casts.run();
  };
  hooks.after = [this](int unit, std::span<const fsdp::GatherHooks::Arrived> arrived) {
    Casts casts(exec_);
    for (const auto& item : arrived) {
      const Site s = site(unit, item.parameter);
      if (s.on())
        quantize(s, item.compute, item.travel.forward.front(), false);
      else
        casts.add({item.compute.forward.front(), item.travel.forward.front()});
    }
    casts.run();
  };
  return hooks;
}

std::span<const Weight> Fp8Weights::bind(std::span<Weight> weights, int unit,
                                         const fsdp::GatheredUnit& gathered) const {
  const std::size_t count = gathered.parameters.size();
  SHARD8_REQUIRE(count <= weights.size(), "unit {} has {} parameters, and there is room for {}", unit, count,
                 weights.size());
  for (std::size_t p = 0; p < count; ++p) {
    const fsdp::Gathered& parameter = gathered[p];
    const Site s = site(unit, static_cast<int>(p));
    if (s.on())
      weights[p] = {operand(s, parameter.forward, format_.recipe.by_rows(Role::weight)),
                    operand(s, parameter.backward, format_.recipe.by_columns(Role::weight)), gathered.stamp};
    else
      weights[p] = {Operand(parameter.forward.front()), Operand(parameter.backward.front()), gathered.stamp};
  }
  return weights.first(count);
}

}  // namespace shard8::model

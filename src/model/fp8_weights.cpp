// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/fp8_weights.hpp"

#include <array>
#include <span>

#include "kernels/adamw.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/quantize.hpp"

namespace shard8::model {

using fp8::Role;
using fp8::Site;
using fsdp::Copies;
using tensor::DType;
using tensor::Operand;
using tensor::Tensor;

namespace {

/// Collects the casts of a unit's parameters and issues them together.
class Casts {
 public:
  explicit Casts(operation::Executor& executor) : executor_(executor) {}
  void add(const kernels::Cast& cast) {
    if (count_ == list_.size()) issue();
    list_[count_++] = cast;
    kernel_.read += operation::bytes_of(cast.in);
    kernel_.written += operation::bytes_of(cast.out);
    kernel_.rows += cast.out.count();
    kernel_.in = cast.in.dtype;
    kernel_.out = cast.out.dtype;
  }
  void issue() {
    executor_.issue(kernel_,
                    [&](const tensor::Exec& exec) { kernels::cast_each(exec, std::span(list_).first(count_)); });
    count_ = 0;
    kernel_ = kNone;
  }

 private:
  static constexpr operation::Kernel kNone{"cast", 0, 1};
  operation::Executor& executor_;
  std::array<kernels::Cast, kernels::kCastsAtOnce> list_;
  std::size_t count_ = 0;
  operation::Kernel kernel_ = kNone;
};

/// The site of one of the matrices of a weight, given that of the first one.
Site part_site(Site site, const fsdp::GroupRows& part) {
  if (site.expert >= 0) site.expert += part.group;
  return site;
}

}  // namespace

Fp8Weights::Fp8Weights(operation::Executor& executor, const WeightFormat& format, const std::vector<UnitSpec>& units,
                       const fsdp::UnitBuffers& buffers, fp8::ScalingState& state)
    : executor_(executor), format_(format), buffers_(buffers), state_(state) {
  for (const UnitSpec& unit : units) {
    auto& sites = sites_.emplace_back();
    auto& whole = whole_.emplace_back();
    for (const ParameterSpec& p : unit.parameters) {
      sites.push_back(format.site(unit, p));
      auto& parts = whole.emplace_back();
      const std::int64_t rows = p.rows / p.groups;
      for (std::int64_t g = 0; g < p.groups; ++g) parts.push_back({g, g * rows, rows});
    }
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
      const fsdp::WeightForms& weight = buffers_.weights(unit)[p];
      for (const fsdp::GroupRows& part : weight.groups)
        kernels::amax(executor_.exec(), state_.amax(part_site(s, part)), weight.master.slice(part.first, part.rows),
                      options);
    });
    const Tensor amaxes = state_.weight_amaxes();
    model_group.all_reduce({&amaxes, 1}, comm::Communicator::Reduce::max).wait();
    if (format_.recipe.delayed())
      state_.begin_weight_history(executor_);
    else
      state_.scales_of_weights(executor_);
  }
  if (format_.stored()) store_all(false);
}

kernels::Outputs Fp8Weights::update_outputs(int unit, int parameter, const fsdp::GroupRows& part) const {
  kernels::Outputs outputs;
  const Site s = part_site(site(unit, parameter), part);
  if (!s.on() || !format_.recipe.per_tensor()) return outputs;
  outputs.amax = state_.amax(s);
  if (!format_.recipe.delayed() || !format_.stored()) return outputs;
  outputs.quantized =
      fsdp::WeightForms::part_of(buffers_.weights(unit)[static_cast<std::size_t>(parameter)].stored.forward, part);
  outputs.scale = state_.scale(s);
  outputs.counts = state_.counts(s);
  return outputs;
}

void Fp8Weights::reduce_amaxes(const comm::Communicator& model_group) const {
  if (format_.recipe.kind != deck::Recipe::current) return;
  const Tensor amaxes = state_.weight_amaxes();
  executor_.run({.op = profile::Collective::all_reduce,
                 .group = operation::Group::model,
                 .ranks = model_group.size(),
                 .tensors = {&amaxes, 1}},
                [&] {
                  return model_group.all_reduce({&amaxes, 1}, comm::Communicator::Reduce::max);
                });
}

void Fp8Weights::after_update() {
  if (format_.recipe.delayed() && format_.stored())  // the optimizer's kernel has cast them
    for_each_weight([&](const Site& s, int unit, std::size_t p) {
      state_.count_elements(s, buffers_.weights(unit)[p].master.count());
      if (s.expert >= 0) state_.invert_expert_scales(executor_, s);
    });
  if (!format_.recipe.on() || format_.recipe.delayed()) return;
  if (format_.recipe.per_tensor()) state_.scales_of_weights(executor_);
  if (format_.stored()) store_all(true);
}

void Fp8Weights::store_all(bool rewritten) const {
  for_each_weight([&](const Site& s, int unit, std::size_t p) {
    const operation::At at(executor_, {unit, s.linear});
    const fsdp::WeightForms& weight = buffers_.weights(unit)[p];
    quantize(s, weight.stored, weight.master, weight.groups, rewritten);
  });
}

void Fp8Weights::quantize(const Site& s, const Copies& out, const Tensor& source,
                          std::span<const fsdp::GroupRows> parts, bool rewritten) const {
  const fp8::Recipe& recipe = format_.recipe;
  auto options = recipe.cast_options(state_.counts(s));
  options.compare_scales = rewritten;
  const bool both = out.two();
  state_.count_elements(s, both ? 2 * source.count() : source.count());
  const Operand& one = out.forward.empty() ? out.backward : out.forward;
  const std::string_view name = recipe.per_tensor() ? "quantize" : "quantize_blocks";
  auto kernel = operation::Kernel{name, source.rows(), source.cols(), source.dtype, recipe.dtype(Role::weight)};
  kernel = both ? kernel.reads(source).writes(out.forward, out.backward) : kernel.reads(source).writes(one);
  executor_.issue(kernel, [&](const tensor::Exec& exec) {
    if (recipe.per_tensor())
      for (const fsdp::GroupRows& part : parts)
        kernels::quantize(exec, fsdp::WeightForms::part_of(one, part), {}, source.slice(part.first, part.rows),
                          state_.scale(part_site(s, part)), options);
    else if (both)
      kernels::quantize_blocks(exec, out.forward, out.backward, source, options);
    else
      kernels::quantize_blocks(exec, one, source, options);
  });
  if (recipe.per_tensor() && s.expert >= 0) state_.invert_expert_scales(executor_, s);
}

void Fp8Weights::add_squares(const Tensor& totals) const {
  for_each_weight([&](const Site& s, int unit, std::size_t p) {
    const fsdp::WeightForms& weight = buffers_.weights(unit)[p];
    if (weight.stored.empty() || !buffers_.counts(unit, p)) return;
    const operation::At at(executor_, {unit, s.linear});
    const Tensor total = totals.slice(unit, 1);
    const auto add = [&](const Operand& copy) {
      const bool whole = copy.scaling == tensor::Scaling::tensor;
      const std::int64_t rows_of_scale = whole ? weight.layout.rows / copy.scale_inv.count() : 0;
      executor_.issue(
          operation::Kernel{"sum_of_scaled_squares", copy.rows(), copy.cols(), copy.data.dtype, DType::fp32}.reads(
              copy),
          [&](const tensor::Exec& exec) {
            kernels::sum_of_scaled_squares(exec, total, copy, rows_of_scale, weight.first_row());
          });
    };
    if (!weight.stored.forward.empty()) add(weight.stored.forward);
    if (weight.stored.forward.empty() || weight.stored.two()) add(weight.stored.backward);
  });
}

fsdp::GatherHooks Fp8Weights::hooks() const {
  const auto cast = [this](Casts& casts, int unit, int parameter, const Copies& out, const Tensor& source,
                           std::span<const fsdp::GroupRows> parts) {
    if (out.forward.scaling == tensor::Scaling::none && out.backward.scaling == tensor::Scaling::none)
      casts.add({out.forward.data, source});
    else
      quantize(site(unit, parameter), out, source, parts, false);
  };
  fsdp::GatherHooks hooks;
  hooks.before = [this, cast](int unit, std::span<const fsdp::GatherHooks::Own> own) {
    Casts casts(executor_);
    for (const auto& [p, communicated] : own) {
      const fsdp::WeightForms& weight = buffers_.weights(unit)[static_cast<std::size_t>(p)];
      cast(casts, unit, p, communicated, weight.master, weight.groups);
    }
    casts.issue();
  };
  hooks.after = [this, cast](int unit, std::span<const fsdp::GatherHooks::Arrived> arrived) {
    Casts casts(executor_);
    for (const auto& [p, communicated, read] : arrived)
      cast(casts, unit, p, read, communicated.forward.data,
           whole_[static_cast<std::size_t>(unit)][static_cast<std::size_t>(p)]);
    casts.issue();
  };
  return hooks;
}

}  // namespace shard8::model

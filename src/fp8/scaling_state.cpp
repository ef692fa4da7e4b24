// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "fp8/scaling_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string_view>

#include "deck/choices.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/moe.hpp"
#include "kernels/quantize.hpp"
#include "tensor/transfer.hpp"

namespace shard8::fp8 {

using kernels::CastCounts;
using operation::Executor;
using tensor::DType;
using tensor::Tensor;

namespace {

/// How many floats lie from one weight's inverse scale to the next. cuBLASLt runs no algorithm whose scales are not
/// aligned to 16 bytes.
constexpr std::int64_t kScaleStride = 4;
/// Weights of an expert: fc1 and fc2, the last two of a layer's linears.
constexpr std::int64_t kOfExpert = 2;

std::size_t kind_of(const Site& site) {
  return static_cast<std::size_t>(site.linear) * kRoles + static_cast<std::size_t>(site.role);
}

}  // namespace

ScalingState::ScalingState(const Recipe& recipe, tensor::Arena& arena, bool unrecorded)
    : recipe_(recipe),
      per_role_(recipe.layers * kLinears),
      of_experts_(recipe.expert_layers() * kOfExpert * recipe.experts),
      unrecorded_(unrecorded) {
  if (!recipe.on()) return;
  counts_ = arena.allocate({static_cast<std::int64_t>(sizeof(CastCounts)) * kLinears * kRoles}, DType::u8);
  if (!recipe.per_tensor()) return;
  const std::int64_t all = kRoles * per_role_ + of_experts_;
  amax_ = arena.allocate({all}, DType::i32);
  scale_ = arena.allocate({all}, DType::fp32);
  change_ = arena.allocate({all}, DType::i32);
  weight_scale_inv_ = arena.allocate({per_role_ * kScaleStride}, DType::fp32);
  if (of_experts_ > 0) expert_scale_inv_ = arena.allocate({of_experts_}, DType::fp32);
  if (unrecorded)
    own_ = {arena.allocate({1}, DType::i32), arena.allocate({1}, DType::fp32), arena.allocate({1}, DType::i32)};
  if (recipe.delayed()) history_ = arena.allocate({recipe.amax_history * all}, DType::i32);
}

void ScalingState::prepare(const tensor::Exec& exec) {
  elements_.fill(0);
  entries_.fill(0);
  for (const Tensor& zero : {counts_, amax_, change_, history_, own_.amax, own_.change})
    if (!zero.empty()) kernels::fill_zero(exec, zero);
  for (const Tensor& one : {scale_, weight_scale_inv_, expert_scale_inv_, own_.scale})
    if (!one.empty()) kernels::fill_one(exec, one);
}

std::int64_t ScalingState::index(const Site& site) const {
  SHARD8_REQUIRE(recipe_.per_tensor() && site.layer >= 0 && site.layer < recipe_.layers,
                 "there is no scale of {} in layer {} of {} in FP8", name_of(site.linear, site.role), site.layer,
                 recipe_.layers);
  if (site.expert < 0) return site.layer * kLinears + static_cast<std::int64_t>(site.linear);
  const std::int64_t layer = site.layer - recipe_.dense_layers;
  const bool fc1 = site.linear == Linear::fc1, fc2 = site.linear == Linear::fc2;
  SHARD8_REQUIRE((fc1 || fc2) && layer >= 0 && site.expert < recipe_.experts,
                 "there is no scale of {} of expert {} in layer {} in FP8", name_of(site.linear, site.role),
                 site.expert, site.layer);
  return per_role_ + (layer * kOfExpert + (fc2 ? 1 : 0)) * recipe_.experts + site.expert;
}

Tensor ScalingState::role_part(const Tensor& all, Role role) const { return all.slice(first_of(role), matrices(role)); }

Tensor ScalingState::packed(const Tensor& all, const Site& site) const {
  return role_part(all, site.role).slice(index(site), 1);
}

Tensor ScalingState::weight_scale_inv(const Site& site) const {
  if (site.expert >= 0) return expert_scale_inv_.slice(index(site) - per_role_, 1);
  return weight_scale_inv_.slice(index(site) * kScaleStride, 1);
}

Tensor ScalingState::expert_scale_invs(const Site& site) const {
  return expert_scale_inv_.slice(index(site.of_expert(0)) - per_role_, recipe_.experts);
}

void ScalingState::invert_expert_scales(Executor& executor, const Site& site) const {
  const Tensor inverses = expert_scale_invs(site);
  const Tensor scales = role_part(scale_, Role::weight).slice(index(site.of_expert(0)), recipe_.experts);
  executor.issue(
      operation::Kernel{"inverse_scales", scales.count(), 1, scales.dtype, inverses.dtype}.reads(scales).writes(
          inverses),
      [&](const tensor::Exec& exec) { kernels::inverse_scales(exec, inverses, scales); });
}

Tensor ScalingState::weight_amaxes() const { return role_part(amax_, Role::weight); }

bool ScalingState::scaled_by_own_amax(const Site& site) const {
  if (!recipe_.delayed()) return recipe_.per_tensor();
  return site.role != Role::weight && entries(site.role) == 0;
}

ScalingState::Unrecorded::Unrecorded(ScalingState& state) : state_(state) {
  SHARD8_REQUIRE(state.unrecorded_ && state.recording_, "unrecorded casts of a state {}",
                 state.recording_ ? "that was made without memory for them" : "that records none");
  state.recording_ = false;
}

void ScalingState::scale_of(Executor& executor, const Site& site, bool keep) const {
  scale_of(executor, scale(site), recording_ ? packed(change_, site) : own_.change, amax(site), site.role, keep);
}

void ScalingState::scales_of_weights(Executor& executor) const {
  require_recording();
  scale_of(executor, role_part(scale_, Role::weight), role_part(change_, Role::weight), weight_amaxes(), Role::weight);
}

void ScalingState::scale_of(Executor& executor, const Tensor& scale, const Tensor& change, const Tensor& amax,
                            Role role, bool keep) const {
  executor.issue(operation::Kernel{"scale_of_amax", amax.count(), 1, amax.dtype, scale.dtype}.reads(amax).writes(scale),
                 [&](const tensor::Exec& exec) {
                   const bool clear = !recipe_.delayed() || !recording_;
                   kernels::scale_of_amax(exec, scale, change, amax, recipe_.rule(role), clear, keep);
                 });
}

void ScalingState::begin_weight_history(Executor& executor) {
  if (recipe_.delayed()) update(executor, Role::weight);
}

void ScalingState::require_recording() const {
  SHARD8_REQUIRE(recording_, "the scaling state of a step is ended where casts are not recorded");
}

void ScalingState::reduce(Executor& executor, const comm::Communicator& world) const {
  require_recording();
  if (!recipe_.delayed()) return;
  const std::span<const Tensor> amaxes(&amax_, 1);
  executor.run({.op = profile::Collective::all_reduce,
                .group = operation::Group::world,
                .ranks = world.size(),
                .tensors = amaxes},
               [&] { return world.all_reduce(amaxes, comm::Communicator::Reduce::max); });
}

void ScalingState::update(Executor& executor) {
  require_recording();
  if (!recipe_.delayed()) return;
  for (const Role role : {Role::input, Role::weight, Role::output_gradient}) update(executor, role);
}

void ScalingState::update(Executor& executor, Role role) {
  const std::int64_t length = recipe_.amax_history;
  const std::int64_t entries = entries_[static_cast<std::size_t>(role)]++;
  const auto of = recipe_.amax_algo == deck::AmaxAlgo::max ? kernels::AmaxOf::all : kernels::AmaxOf::last;
  const Tensor part =
      history_.slice(length * first_of(role), length * matrices(role)).reshaped({length, matrices(role)});
  const Tensor scale = role_part(scale_, role);
  executor.issue(
      operation::Kernel{"delayed_update", matrices(role), 1, amax_.dtype, scale.dtype}.reads(part).writes(scale),
      [&](const tensor::Exec& exec) {
        kernels::delayed_update(exec, scale, role_part(change_, role), part, role_part(amax_, role), entries % length,
                                std::min(entries + 1, length), of, recipe_.rule(role));
      });
}

Tensor ScalingState::history_entries() { return {reinterpret_cast<std::byte*>(entries_.data()), {kRoles}, DType::i32}; }

std::string ScalingState::problem_of_entries(std::span<const std::int32_t> entries, std::int64_t steps) {
  for (std::size_t role = 0; role < entries.size(); ++role) {
    // Weights have one more, of their initial values.
    const std::int64_t least = role == static_cast<std::size_t>(Role::weight) ? 1 : 0, most = steps + least;
    if (entries[role] >= least && entries[role] <= most) continue;
    return fmt::format("element {} is {}; after {} steps it is from {} to {}", role, entries[role], steps, least, most);
  }
  return {};
}

CastCounts* ScalingState::counts(const Site& site) const {
  if (!recording_) return nullptr;
  return reinterpret_cast<CastCounts*>(counts_.data) + kind_of(site);
}

void ScalingState::count_elements(const Site& site, std::int64_t elements) {
  if (!recording_) return;
  elements_[kind_of(site)] += static_cast<std::uint64_t>(elements);
}

std::vector<profile::CastFigures> ScalingState::figures(const tensor::Exec& exec) const {
  std::vector<profile::CastFigures> rows;
  if (!recipe_.on()) return rows;
  const auto lost = tensor::to_host<CastCounts>(exec, counts_);
  const auto changes = tensor::to_host<std::uint32_t>(exec, change_);
  for (int l = 0; l < kLinears; ++l) {
    for (int r = 0; r < kRoles; ++r) {
      const Site kind{0, static_cast<Linear>(l), static_cast<Role>(r)};
      const CastCounts& count = lost[kind_of(kind)];
      std::uint32_t change = count.scale_change;
      const auto add = [&](std::int64_t i) {
        change = std::max(change, changes[static_cast<std::size_t>(first_of(kind.role) + i)]);
      };
      for (std::int64_t i = l; recipe_.per_tensor() && i < per_role_; i += kLinears) add(i);
      const bool experts = recipe_.per_tensor() && of_experts_ > 0 && kind.role == Role::weight;
      for (std::int64_t layer = 0; experts && l >= kLinears - kOfExpert && layer < recipe_.expert_layers(); ++layer)
        for (std::int64_t e = 0; e < recipe_.experts; ++e)
          add(index(Site{static_cast<int>(recipe_.dense_layers + layer), kind.linear, kind.role, e}));
      rows.push_back({name_of(kind.linear, kind.role), std::string(tensor::name_of(recipe_.dtype(kind.role))),
                      elements_[kind_of(kind)] + count.elements, count.saturated, count.flushed,
                      std::bit_cast<float>(change)});
    }
  }
  return rows;
}

using tensor::Scaling;

std::string name_of(Linear linear, Role role) {
  constexpr std::string_view roles[] = {"input", "weight", "output gradient"};
  return std::string(operation::name_of(linear)) + ' ' + std::string(roles[static_cast<int>(role)]);
}

Recipe Recipe::make(const deck::Config& config) {
  const deck::Fp8Config& fp8 = config.fp8;
  Recipe r;
  r.kind = fp8.recipe;
  if (!r.on()) return r;
  r.transposes = deck::on_device(config.mesh);
  r.gradient = fp8.format == deck::Fp8Format::hybrid ? DType::e5m2 : DType::e4m3;
  r.amax_history = fp8.amax_history;
  r.amax_algo = fp8.amax_algo;
  r.margin = r.delayed() ? static_cast<int>(fp8.margin) : 0;
  r.power_of_2 = fp8.power_of_2_scales;
  r.through_bf16 = config.precision.compute == deck::FloatType::bf16;
  r.first_layer = fp8.first_layers_bf16;
  r.layers = config.model.layers - fp8.first_layers_bf16 - fp8.last_layers_bf16;
  if (!config.model.moe.on()) return r;
  r.dense_layers = fp8.layers_with_ffn(config.model);
  if (fp8.layers_with_experts(config.model) > 0) r.experts = config.model.moe.experts;
  return r;
}

Site Recipe::site(std::int64_t layer, Linear linear) const {
  const std::int64_t index = layer - first_layer;
  return {index >= 0 && index < layers ? static_cast<int>(index) : -1, linear, Role::input};
}

Scaling Recipe::rowwise(Role role) const {
  switch (kind) {
    case deck::Recipe::none:
      return Scaling::none;
    case deck::Recipe::delayed:
    case deck::Recipe::current:
      return Scaling::tensor;
    case deck::Recipe::block:
      return role == Role::weight ? Scaling::tile_128 : Scaling::row_128;
    case deck::Recipe::mxfp8:
      return Scaling::row_32;
  }
  return Scaling::none;
}

Scaling Recipe::columnwise(Role role) const {
  switch (rowwise(role)) {
    case Scaling::row_128:
      return Scaling::column_128;
    case Scaling::row_32:
      return Scaling::column_32;
    default:
      return rowwise(role);
  }
}

std::int64_t Recipe::granularity() const { return tensor::block_rows(columnwise(Role::weight)); }

std::int64_t Recipe::multiple() const {
  if (!on()) return 1;
  constexpr std::int64_t kAligned = 16;  // specified: cuBLASLt's FP8 products
  return std::max(kAligned, tensor::block_rows(columnwise(Role::input)));
}

kernels::ScaleRule Recipe::rule(Role role) const {
  return {dtype(role) == DType::e5m2 ? tensor::E5M2::kMax : tensor::E4M3::kMax, margin, power_of_2};
}

kernels::CastOptions Recipe::cast_options(kernels::CastCounts* counts) const {
  kernels::CastOptions options;
  options.through_bf16 = through_bf16;
  options.power_of_2 = power_of_2;
  options.counts = counts;
  return options;
}

}  // namespace shard8::fp8

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/model/fp8_module.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace shard8::tests {

using deck::Recipe;
using tensor::DType;

namespace {

int all_ranks() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

}  // namespace

std::vector<Fp8Setting> fp8_settings(bool and_bf16) {
  std::vector<Fp8Setting> all;
  for (const Setting& of : settings()) {
    const bool bf16 = of.compute == DType::bf16, llama = of.arch == deck::Arch::llama;
    if (bf16 && (!and_bf16 || all_ranks() > 2)) continue;
    const auto add = [&](const Fp8Setting& setting, bool with_llama) {
      if (setting.kind == Recipe::block && all_ranks() > 2) return;
      if (!bf16 || with_llama == llama) all.push_back(setting);
    };
    add({of, Recipe::delayed, false, false}, true);
    add({of, Recipe::delayed, true, false}, false);
    add({of, Recipe::current, false, false}, true);
    add({of, Recipe::mxfp8, false, false}, false);
    add({of, Recipe::block, false, false}, true);
    add({of, Recipe::block, false, true}, false);
    add({of, Recipe::block, false, false, true}, false);
  }
  return all;
}

std::string name_of(const Fp8Setting& s) {
  constexpr const char* kNames[] = {"none", "delayed", "current", "block", "mxfp8"};
  return fmt::format("{}, {}{}{}{}", name_of(s.of), kNames[static_cast<int>(s.kind)], s.later ? ", a later step" : "",
                     s.any_scales ? ", any scales" : "", s.hybrid ? ", hybrid" : "");
}

deck::ModelConfig fp8_model(const Fp8Setting& s) {
  const bool wide = s.kind == Recipe::block;
  const int ranks = all_ranks();
  deck::ModelConfig m = small_model(s.of.arch);
  m.hidden = wide ? 256 : 128;
  m.ffn = 256;
  m.heads = 4;
  // As few key heads as blocks allow.
  m.kv_heads = s.of.arch == deck::Arch::llama ? std::min(4, wide ? 2 * ranks : std::max(2, ranks)) : 4;
  m.seq = 16;
  return m;
}

std::int64_t fp8_batch(const Fp8Setting& s) { return (s.kind == Recipe::block ? 8 : 2) * all_ranks(); }

fp8::Recipe recipe_of(const Fp8Setting& s) {
  deck::Config config;
  config.model = fp8_model(s);
  config.precision.compute = s.of.compute == DType::bf16 ? deck::FloatType::bf16 : deck::FloatType::fp32;
  config.fp8.recipe = s.kind;
  config.fp8.format = s.blocks() && !s.hybrid ? deck::Fp8Format::e4m3 : deck::Fp8Format::hybrid;
  config.fp8.power_of_2_scales = s.blocks() && !s.any_scales;
  config.fp8.amax_history = 3;
  return fp8::Recipe::make(config);
}

using fp8::Linear;
using fp8::Role;
using fp8::Site;
using reference::Cast;
using reference::CastRule;
using tensor::Operand;
using tensor::Scaling;
using tensor::Tensor;

Fp8Module::Fp8Module(const Fp8Setting& s, std::int64_t arena_bytes)
    : Module(fp8_model(s), s.of.compute, fp8_batch(s), arena_bytes, recipe_of(s)), setting(s) {}

int Fp8Module::weight_of(Linear linear) const {
  for (int p = 0; p < parameters(kLayer); ++p)
    if (whole_parameter(kLayer, p).linear == linear) return p;
  return -1;
}

fp8::Operands Fp8Module::copies(Role role, std::int64_t rows, std::int64_t cols) {
  return model::CastScratch::allocate(recipe, role, rows * cols, arena()).view(recipe, role, rows, cols, false);
}

model::LinearScratch Fp8Module::linear_scratch() {
  const std::int64_t most = std::max({dims.hidden, dims.qkv_width(), dims.fc1_width()});
  model::LinearScratch scratch;
  scratch.gathered = output(dims.tokens(), most);
  scratch.partial = output(dims.tokens(), most);
  scratch.gathered_cast = fp8::CastBuffer(arena(), dims.tokens() * most, recipe.rowwise(Role::input));
  scratch.gradient = model::CastScratch::allocate(recipe, Role::output_gradient, dims.tokens() * most, arena());
  return scratch;
}

Fp8Module::Share Fp8Module::share(const Site& s) const {
  const bool input = s.role == Role::input;
  const bool column_parallel = s.linear == Linear::qkv || s.linear == Linear::fc1;
  if (input == column_parallel) return {};
  if (!input) return {rows_of(kLayer, weight_of(s.linear)), whole_parameter(kLayer, weight_of(s.linear)).rows};
  const std::int64_t n = s.linear == Linear::proj ? dims.q_width() : dims.ffn;
  Share share{std::vector<std::int64_t>(static_cast<std::size_t>(n)), n * group.size()};
  std::iota(share.columns.begin(), share.columns.end(), n * rank());
  return share;
}

namespace {

/// The scaling that a recipe has for a matrix of this role. Written here a second time, apart from fp8::Recipe.
Scaling scaling_of(deck::Recipe kind, Role role, bool columnwise) {
  if (kind == deck::Recipe::mxfp8) return columnwise ? Scaling::column_32 : Scaling::row_32;
  if (kind != deck::Recipe::block) return Scaling::tensor;
  if (role == Role::weight) return Scaling::tile_128;
  return columnwise ? Scaling::column_128 : Scaling::row_128;
}

}  // namespace

CastRule Fp8Module::rule(const Site& s, bool columnwise) const {
  const bool e5m2 = s.role == Role::output_gradient && (setting.hybrid || !setting.blocks());
  CastRule rule{scaling_of(setting.kind, s.role, columnwise),
                e5m2 ? DType::e5m2 : DType::e4m3,
                setting.blocks() && !setting.any_scales,
                {}};
  if (setting.known_scales() && s.role != Role::weight) rule.scale = *state().scale(s).as<float>();
  return rule;
}

Cast Fp8Module::cast_of(const Site& s, const Matrix& whole, bool columnwise) const {
  const Share mine = share(s);
  if (!mine.of_tokens()) return reference::cast(part(mine, whole), rule(s, columnwise));
  const Cast cast = reference::cast(whole, rule(s, columnwise));  // matrices that are gathered share their scale
  return {part(mine, cast.codes), part(mine, cast.inverse)};
}

Cast Fp8Module::weight_cast(Linear linear, const Matrix& whole, bool columnwise) const {
  CastRule how = rule(site(linear, Role::weight), columnwise);
  if (setting.known_scales()) {  // the scale of an earlier, larger weight
    double amax = 0;
    for (const double v : whole.values) amax = std::max(amax, std::abs(v));
    how.scale = how.factors(1.37 * amax).scale;
  }
  return reference::cast(whole, how);
}

Operand Fp8Module::put_cast(const Cast& cast, DType dtype, Scaling scaling) {
  const std::int64_t rows = cast.codes.rows, cols = cast.codes.cols;
  const Operand out(arena().allocate({rows, cols}, dtype),
                    arena().allocate(tensor::scale_shape(scaling, rows, cols), tensor::scale_dtype(scaling)), scaling);
  for (std::size_t i = 0; i < cast.codes.values.size(); ++i)
    out.data.as<tensor::E4M3>()[i] = tensor::E4M3(static_cast<float>(cast.codes.values[i]));
  std::size_t block = 0;
  reference::for_each_block(scaling, rows, cols, [&](std::int64_t r, std::int64_t, std::int64_t c, std::int64_t) {
    const auto inverse = static_cast<float>(cast.inverse(r, c));
    if (out.scale_inv.dtype == DType::e8m0)
      out.scale_inv.as<tensor::E8M0>()[block] = tensor::E8M0(static_cast<std::uint8_t>(std::ilogb(inverse) + 127));
    else
      out.scale_inv.as<float>()[block] = inverse;
    ++block;
  });
  return out;
}

model::Weight Fp8Module::fp8_weight(Linear linear) {
  const int p = weight_of(linear);
  const Matrix& whole = whole_weights(kLayer)[static_cast<std::size_t>(p)];
  const auto copy = [&](bool columnwise) {
    const Cast cast = weight_cast(linear, whole, columnwise);
    return put_cast({part_of(kLayer, p, cast.codes), part_of(kLayer, p, cast.inverse)}, recipe.dtype(Role::weight),
                    columnwise ? recipe.columnwise(Role::weight) : recipe.rowwise(Role::weight));
  };
  const Operand rows = copy(false);
  return {rows, recipe.two_copies(Role::weight) ? copy(true) : rows, {}};
}

std::vector<model::Weight> Fp8Module::fp8_weights() {
  const auto plain = weights(kLayer);
  std::vector<model::Weight> all(plain.begin(), plain.end());
  for (const auto linear : {Linear::qkv, Linear::proj, Linear::fc1, Linear::fc2})
    all[static_cast<std::size_t>(weight_of(linear))] = fp8_weight(linear);
  return all;
}

void Fp8Module::end_step() {
  std::vector<Site> sites;
  std::vector<float> amaxes;
  for (const auto linear : {Linear::qkv, Linear::proj, Linear::fc1, Linear::fc2})
    for (const auto role : {Role::input, Role::output_gradient}) {
      sites.push_back(site(linear, role));
      amaxes.push_back(std::bit_cast<float>(*state().amax(sites.back()).as<std::int32_t>()));
    }
  MPI_Allreduce(MPI_IN_PLACE, amaxes.data(), static_cast<int>(amaxes.size()), MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
  state().reduce(context.executor, group);
  state().update(context.executor);
  for (std::size_t i = 0; i < sites.size(); ++i) {
    if (amaxes[i] == 0) continue;  // a linear that was not run
    const float largest = sites[i].role == Role::input ? tensor::E4M3::kMax : tensor::E5M2::kMax;
    EXPECT_EQ(*state().scale(sites[i]).as<float>(), largest / amaxes[i]) << name_of(sites[i].linear, sites[i].role);
  }
}

}  // namespace shard8::tests

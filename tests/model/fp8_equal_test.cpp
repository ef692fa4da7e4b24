// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/elementwise.hpp"
#include "tests/model/fp8_layer.hpp"
#include "tests/support/compare.hpp"

// Casts that a kernel makes while it computes the matrix, and casts that are gathered, equal those made by a kernel of
// their own, bit for bit.

namespace shard8 {
namespace {

using deck::Recompute;
using fp8::Linear;
using fp8::Role;
using tensor::DType;
using tensor::Tensor;
using tests::Fp8Layer;
using tests::Fp8Module;
using tests::Fp8Setting;

constexpr fp8::Site kFc1{0, Linear::fc1, Role::input}, kFc2{0, Linear::fc2, Role::input};

void expect_same_bytes(const Tensor& got, const Tensor& want, const std::string& what) {
  ASSERT_EQ(got.bytes(), want.bytes()) << what;
  const std::span<const std::byte> a(got.data, got.bytes()), b(want.data, want.bytes());
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin())) << what;
}

/// Expects that `got` and the kept amax are the cast and the amax of the plain matrix.
void expect_unfused(Fp8Module& m, const fp8::Site& site, const tensor::Operand& got, const Tensor& plain) {
  const std::string what = name_of(site.linear, site.role);
  const auto options = m.recipe.cast_options(nullptr);
  const Tensor amax = m.arena().allocate({1}, DType::i32);
  std::memset(amax.data, 0, amax.bytes());
  kernels::amax(m.context.executor.exec(), amax, plain, options);
  const tensor::Operand want = m.copies(site.role, plain.rows(), plain.cols()).rowwise;
  kernels::quantize(m.context.executor.exec(), want, {}, plain, m.state().scale(site), options);
  expect_same_bytes(got.data, want.data, what);
  expect_same_bytes(got.scale_inv, want.scale_inv, "scale of " + what);
  expect_same_bytes(m.state().amax(site), amax, "amax of " + what);
}

Tensor copy_of(Fp8Module& m, const Tensor& t) {
  const Tensor copy = m.output(t.rows(), t.cols());
  std::memcpy(copy.data, t.data, t.bytes());
  return copy;
}

Tensor normed(Fp8Module& m, const Tensor& x, const model::Affine& w) {
  const model::Norm norm{m.model.arch, m.dims.norm_eps};
  const Tensor y = m.output(x.rows(), x.cols());
  norm.forward(m.context, y, model::NormStatistics::allocate(m.model.arch, x.rows(), m.arena()), x, w);
  return y;
}

/// The MLP in a step of delayed scaling after the first: all its casts but the one of dy are fused.
void run_fused(const Fp8Setting& setting) {
  Fp8Module m(setting);
  tests::step_before(m, {false, true});
  const Fp8Layer layer(m, Recompute::none);
  const bool llama = m.model.arch == deck::Arch::llama;
  const auto& saved = layer.saved.mlp;
  auto scratch = layer.scratch.mlp;
  scratch.dactivation = m.output(m.dims.tokens(), m.dims.ffn);  // memory of its own: it is read after backward
  const model::LayernormMlp mlp{{{m.model.arch, m.dims.norm_eps}}};
  const Tensor x = m.put_tokens(m.random(m.dims.tokens(), m.dims.hidden, 1));
  const Tensor dx = m.put_tokens(m.random(m.dims.tokens(), m.dims.hidden, 2));
  EXPECT_TRUE(mlp.forward(m.context, m.output(x.rows(), x.cols()), saved, x, layer.weights.mlp, scratch).made());
  expect_unfused(m, kFc1, saved.fc1.input.copies.rowwise, normed(m, x, layer.weights.mlp.fc1.norm));
  const Tensor inside = copy_of(m, saved.preactivation);
  const Tensor active = m.output(m.dims.tokens(), m.dims.ffn);
  llama ? kernels::swiglu_forward(m.context.executor.exec(), active, inside)
        : kernels::gelu_forward(m.context.executor.exec(), active, inside);
  expect_unfused(m, kFc2, saved.fc2.copies.rowwise, active);

  auto fc2 = mlp.begin_backward(m.context, dx, saved, scratch);
  EXPECT_FALSE(mlp.backward(m.context, std::move(fc2), dx, layer.gradients.mlp, x, saved, layer.weights.mlp, scratch));
  const Tensor gradient = m.output(inside.rows(), inside.cols());
  llama ? kernels::swiglu_backward(m.context.executor.exec(), gradient, scratch.dactivation, inside)
        : kernels::gelu_backward(m.context.executor.exec(), gradient, scratch.dactivation, inside);
  const auto cast = scratch.fc1.gradient.view(m.recipe, Role::output_gradient, inside.rows(), inside.cols(), false);
  expect_unfused(m, kFc1.with(Role::output_gradient), cast.rowwise, gradient);
  if (llama)
    expect_same_bytes(saved.preactivation, inside, "what fc1 made, which nobody needs to overwrite");
  else
    expect_same_bytes(saved.preactivation, gradient, "the plain gradient, of which the bias' is made");
}

/// Norm and QKV: the product reads the rowwise cast of all ranks' normed tokens.
void run_gather(const Fp8Setting& setting) {
  Fp8Module m(setting);
  if (setting.later) tests::step_before(m, {true, false});
  const Fp8Layer layer(m, Recompute::none);
  const fp8::Site site = Fp8Module::site(Linear::qkv, Role::input);
  const model::LayernormLinear module{{m.model.arch, m.dims.norm_eps}};
  const auto& saved = layer.saved.attention.qkv;
  const auto& scratch = layer.scratch.attention.qkv;
  const Tensor x = m.put_tokens(m.random(m.dims.tokens(), m.dims.hidden, 1));
  module.forward(m.context, layer.saved.attention.rotated, saved, x, layer.weights.attention.qkv, scratch);

  tensor::Operand read = saved.input.copies.rowwise;
  if (m.group.size() > 1) {
    read = scratch.gathered_cast.view(m.dims.tokens(), m.dims.hidden, read.data.dtype, read.scaling);
    if (m.recipe.per_tensor())
      read.scale_inv = saved.input.copies.rowwise.scale_inv;  // one scale for the group: not gathered
  }
  const auto got = Fp8Module::see({read, read}).rowwise;
  const auto want =
      tests::reference::cast(m.whole_tokens(normed(m, x, layer.weights.attention.qkv.norm)), m.rule(site, false));
  EXPECT_TRUE(tests::same_bits(got.codes.values, want.codes.values));
  EXPECT_TRUE(tests::same_bits(got.inverse.values, want.inverse.values)) << "scales";
}

TEST(Fp8Fused, CastsAndAmaxesAreThoseMadeApart) {
  for (const auto& of : tests::settings()) {
    SCOPED_TRACE(name_of(of));
    run_fused({of, deck::Recipe::delayed, true, false});
  }
}

TEST(Fp8Gather, IsTheCastOfTheWhole) {
  for (const Fp8Setting& setting : tests::fp8_settings(true)) {
    SCOPED_TRACE(name_of(setting));
    run_gather(setting);
  }
}

}  // namespace
}  // namespace shard8

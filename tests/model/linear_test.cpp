// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/linear.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <numeric>
#include <string>
#include <type_traits>

#include "tests/model/module.hpp"
#include "tests/model/reference/reference.hpp"

namespace shard8 {
namespace {

using tests::Matrix;
using tests::Module;
using tests::Setting;

constexpr int kLinearLayer = 1;

/// Indices of a layer's parameters: weight and bias (-1: none).
struct Place {
  int weight, bias;
};
Place qkv(deck::Arch arch) { return arch == deck::Arch::llama ? Place{1, -1} : Place{2, 3}; }
Place proj(deck::Arch arch) { return arch == deck::Arch::llama ? Place{2, -1} : Place{4, 5}; }

template <class T>
T at(const std::vector<T>& list, int index) {
  return index < 0 ? T{} : list[static_cast<std::size_t>(index)];
}

model::LinearScratch scratch_of(Module& m) {
  const std::int64_t most = std::max(m.dims.hidden, m.dims.qkv_width());
  model::LinearScratch scratch;
  scratch.gathered = m.output(m.dims.tokens(), most);
  scratch.partial = m.output(m.dims.tokens(), most);
  return scratch;
}

/// A layer's qkv as a linear module: x (tokens, H) -> y (tokens, qkv).
void run_column(const Setting& setting) {
  Module m(tests::small_model(setting.arch), setting.compute);
  const Place place = qkv(setting.arch);
  tests::reference::Graph graph;
  const auto leaves = leaves_of(graph, m, kLinearLayer);
  const auto x = graph.leaf(m.random(m.dims.tokens(), m.dims.hidden, 1));
  const auto y = tests::reference::linear(graph, x, at(leaves, place.weight), at(leaves, place.bias));
  const Matrix dy = m.random(y->value.rows, y->value.cols, 2);
  graph.backward(y, dy);

  const auto w = m.weights(kLinearLayer);
  const auto dw = m.gradients(kLinearLayer);
  const model::LinearWeights weights{at(w, place.weight), at(w, place.bias)};
  const auto which = m.rows_of(kLinearLayer, place.weight);
  const auto scratch = scratch_of(m);
  const auto mine = m.put_tokens(x->value);
  const auto out = m.output(m.dims.tokens(), m.dims.qkv_width());
  model::column_linear_forward(m.context, out, mine, weights, scratch, model::Overlap().qkv().forward);
  m.expect_close("y", m.whole_columns(out, which, y->value.cols), y->value);

  const auto dx = m.output(m.dims.tokens_local(), m.dims.hidden);
  const auto my_dy = m.put(Module::columns(dy, which));
  model::AffineGradient gradient{{at(dw, place.weight), at(dw, place.bias)}, false};
  const auto backward = [&] {
    auto sum =
        model::column_linear_backward(m.context, dx, gradient, my_dy, mine, weights, scratch, model::Overlap().qkv());
    EXPECT_EQ(sum.wait(m.context).count(), 1);
  };
  backward();
  m.expect_close("dx", m.whole_tokens(dx), x->gradient);
  m.expect_close("dw", m.whole_gradient(kLinearLayer, place.weight, gradient.sum.weight),
                 at(leaves, place.weight)->gradient);
  if (place.bias >= 0)
    m.expect_close("dbias", m.whole_gradient(kLinearLayer, place.bias, gradient.sum.bias),
                   at(leaves, place.bias)->gradient);

  // A second micro-batch with the same numbers adds the same gradients once more.
  gradient.accumulate = true;
  backward();
  Matrix twice = at(leaves, place.weight)->gradient;
  for (double& v : twice.values) v *= 2;
  m.expect_close("dw twice", m.whole_gradient(kLinearLayer, place.weight, gradient.sum.weight), twice);
}

/// A layer's proj as a linear module: heads (tokens, H) -> y (tokens, H) = residual + heads·wᵀ + bias.
void run_row(const Setting& setting) {
  Module m(tests::small_model(setting.arch), setting.compute);
  const Place place = proj(setting.arch);
  tests::reference::Graph graph;
  const auto leaves = leaves_of(graph, m, kLinearLayer);
  const auto x = graph.leaf(m.random(m.dims.tokens(), m.dims.hidden, 1));
  const auto residual = graph.leaf(m.random(m.dims.tokens(), m.dims.hidden, 3));
  const auto y = tests::reference::add(
      graph, residual, tests::reference::linear(graph, x, at(leaves, place.weight), at(leaves, place.bias)));
  const Matrix dy = m.random(y->value.rows, y->value.cols, 2);
  graph.backward(y, dy);

  const auto w = m.weights(kLinearLayer);
  const auto dw = m.gradients(kLinearLayer);
  const model::LinearWeights weights{at(w, place.weight), at(w, place.bias)};
  std::vector<std::int64_t> which(static_cast<std::size_t>(m.dims.q_width()));
  std::iota(which.begin(), which.end(), m.column_of(kLinearLayer, place.weight));
  const auto scratch = scratch_of(m);
  const auto mine = m.put(Module::columns(x->value, which));
  const auto my_residual = m.put_tokens(residual->value);
  const auto out = m.output(m.dims.tokens_local(), m.dims.hidden);
  EXPECT_TRUE(
      model::row_linear_forward(m.context, out, mine, weights, my_residual, scratch, model::Overlap().proj().forward)
          .made());
  m.expect_close("y", m.whole_tokens(out), y->value);
  // y may be the residual.
  EXPECT_TRUE(model::row_linear_forward(m.context, my_residual, mine, weights, my_residual, scratch,
                                        model::Overlap().proj().forward)
                  .made());
  m.expect_close("y in place", m.whole_tokens(my_residual), y->value);

  const auto dx = m.output(m.dims.tokens(), m.dims.q_width());
  const auto my_dy = m.put_tokens(dy);
  model::AffineGradient gradient{{at(dw, place.weight), at(dw, place.bias)}, false};
  model::RowBackward backward(m.context, mine, my_dy, scratch, model::Overlap().proj().gather);
  std::move(backward).dgrad(m.context, dx, gradient, weights).wgrad(m.context, gradient);
  m.expect_close("dx", m.whole_columns(dx, which, m.dims.hidden), x->gradient);
  m.expect_close("dw", m.whole_gradient(kLinearLayer, place.weight, gradient.sum.weight),
                 at(leaves, place.weight)->gradient);
  if (place.bias >= 0)
    m.expect_close("dbias", m.whole_gradient(kLinearLayer, place.bias, gradient.sum.bias),
                   at(leaves, place.bias)->gradient);
}

// No step of a row-parallel linear's backward can be left out, or come twice, and what it reads has one holder.
template <class Step>
concept EndsByWgrad = requires(Step step, const model::Context& c, const model::AffineGradient& dw) {
  std::move(step).wgrad(c, dw);
};
template <class Step>
concept StaysAfterWgrad = requires(Step& step, const model::Context& c, const model::AffineGradient& dw) {
  step.wgrad(c, dw);
};
static_assert(!EndsByWgrad<model::RowBackward> && EndsByWgrad<model::RowWgrad> && !StaysAfterWgrad<model::RowWgrad>);
static_assert(!std::is_copy_constructible_v<model::RowWgrad> && !std::is_copy_constructible_v<model::Gathering> &&
              !std::is_copy_constructible_v<model::HeldSum> && !std::is_copy_constructible_v<model::OutputGradient>);

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const base::Error& error) {
    return error.what();
  }
  return {};
}

TEST(Lease, HoldsItsBytesUntilItsEnd) {
  std::array<std::byte, 64> memory{};
  const auto bytes = [&](std::int64_t first, std::int64_t count) {
    return tensor::Tensor{memory.data() + first, {count}, tensor::DType::u8};
  };
  model::Leases leases;
  const auto take = [&](const char* what, std::int64_t first, std::int64_t count) {
    return model::Lease(leases, what, {bytes(first, count)});
  };
  model::Lease last;
  {
    model::Lease a = take("a", 8, 8);
    const model::Lease before = take("before", 0, 8), behind = take("behind", 16, 8);
    const std::string text = "b would overwrite a, which is still in use";
    for (const auto& [first, count] : {std::pair{8, 8}, {9, 1}, {15, 1}})
      EXPECT_EQ(error_of([&] { take("b", first, count); }), text) << first;
    EXPECT_NE(error_of([&] { take("b", 0, 64); }).find("b would overwrite"), std::string::npos);
    last = std::move(a);  // the object that may read the bytes, from now on
    EXPECT_EQ(error_of([&] { take("b", 12, 4); }), text);
  }
  EXPECT_NE(error_of([&] { take("b", 0, 64); }), "");
  last = {};
  // The same tensor twice is held once, and one without bytes not at all.
  const model::Lease all(leases, "all", {bytes(0, 64), bytes(0, 64), bytes(8, 0), {}});
  EXPECT_NE(error_of([&] { take("b", 63, 1); }), "");
}

/// A lease that could not be taken as a whole holds nothing.
TEST(Lease, HoldsAllOrNothing) {
  std::array<std::byte, 16> memory{};
  const tensor::Tensor one{memory.data(), {8}, tensor::DType::u8}, two{memory.data() + 8, {8}, tensor::DType::u8};
  model::Leases leases;
  {
    const model::Lease held(leases, "held", {two});
    EXPECT_NE(error_of([&] { model::Lease(leases, "both", {one, two}); }), "");
    EXPECT_EQ(error_of([&] { model::Lease(leases, "one", {one}); }), "");
  }
  EXPECT_EQ(error_of([&] { model::Lease(leases, "both", {one, two}); }), "");
}

TEST(Linear, ColumnParallel) {
  for (const Setting& setting : tests::settings()) {
    SCOPED_TRACE(name_of(setting));
    run_column(setting);
  }
}

TEST(Linear, RowParallel) {
  for (const Setting& setting : tests::settings()) {
    SCOPED_TRACE(name_of(setting));
    run_row(setting);
  }
}

}  // namespace
}  // namespace shard8

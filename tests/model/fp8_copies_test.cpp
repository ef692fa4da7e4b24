// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <functional>

#include "base/error.hpp"
#include "tests/model/fp8_module.hpp"

// A product refuses a copy of a weight that was not gathered for the product's pass, or not in this step.

namespace shard8 {
namespace {

using fp8::Linear;
using fp8::Role;
using tensor::Tensor;
using tests::Fp8Module;

void expect_error(const std::function<void()>& f, const std::string& text) {
  try {
    f();
    ADD_FAILURE() << "nothing was thrown; expected: " << text;
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::ExitCode::failed);
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

/// A layer's qkv and proj, whose forward and backward can be run with any weight.
struct Products {
  explicit Products(deck::Recipe kind) : m({{}, kind, false, false}) {}

  void column(const model::Weight& w, bool forward) {
    const Tensor x = m.put_tokens(tests::Matrix(m.dims.tokens(), m.dims.hidden, 1));
    const Tensor y = m.put(tests::Matrix(m.dims.tokens(), m.dims.qkv_width(), 1));
    run(Linear::qkv, x, y, [&](const auto& dw, const auto& input, const auto& dy, const auto& scratch) {
      if (forward) return column_linear_forward(m.context, y, input, {w, {}}, scratch, model::Overlap().qkv().forward);
      const auto gradient = output_gradient(m.context, Fp8Module::site(Linear::qkv, Role::input), dy, scratch);
      auto sum = column_linear_backward(m.context, x, dw, gradient, input, {w, {}}, scratch, model::Overlap().qkv());
      EXPECT_EQ(sum.wait(m.context).count(), 1);
    });
  }
  void row(const model::Weight& w, bool forward) {
    const Tensor x = m.put(tests::Matrix(m.dims.tokens(), m.dims.q_width(), 1));
    const Tensor y = m.put_tokens(tests::Matrix(m.dims.tokens(), m.dims.hidden, 1));
    run(Linear::proj, x, y, [&](const auto& dw, const auto& input, const auto& dy, const auto& scratch) {
      if (forward) {
        EXPECT_TRUE(
            row_linear_forward(m.context, y, input, {w, {}}, y, scratch, model::Overlap().proj().forward).made());
        return;
      }
      const model::LinearInput saved(input, Fp8Module::site(Linear::proj, Role::input));
      model::RowBackward backward(m.context, saved, dy, scratch, model::Overlap().proj().gather);
      std::move(backward).dgrad(m.context, x, dw, {w, {}}).wgrad(m.context, dw);
    });
  }

  Fp8Module m;

 private:
  template <class F>
  void run(Linear linear, const Tensor& x, const Tensor& y, const F& f) {
    const auto site = Fp8Module::site(linear, Role::input);
    const auto scratch = m.linear_scratch();
    const auto input = m.copies(Role::input, x.rows(), x.cols());
    m.context.quantizer->cast(site, input, x, m.share(site).tokens());
    const auto sums = m.gradients(Fp8Module::kLayer);
    f(model::AffineGradient{{sums[static_cast<std::size_t>(m.weight_of(linear))], {}}, false}, input, y, scratch);
  }
};

TEST(Fp8Copies, OfTheOtherPassIsRefused) {
  Products p(deck::Recipe::mxfp8);
  for (const Linear linear : {Linear::qkv, Linear::proj}) {
    const model::Weight whole = p.m.fp8_weight(linear);
    for (const bool forward : {true, false}) {
      const auto product = [&](const model::Weight& w) {
        return linear == Linear::qkv ? p.column(w, forward) : p.row(w, forward);
      };
      model::Weight of_this_pass = whole, of_the_other = whole;
      (forward ? of_this_pass.backward : of_this_pass.forward) = {};
      (forward ? of_the_other.forward : of_the_other.backward) = {};
      EXPECT_NO_THROW(product(of_this_pass));
      expect_error([&] { product(of_the_other); },
                   forward ? "read in forward is not gathered for it" : "read in backward is not gathered for it");
    }
  }
}

TEST(Fp8Copies, OfAnotherGatherIsRefused) {
  Products p(deck::Recipe::current);
  for (const Linear linear : {Linear::qkv, Linear::proj}) {
    std::uint64_t generation = 7;
    model::Weight w = p.m.fp8_weight(linear);
    w.stamp = {&generation, 7};
    for (const bool forward : {true, false}) {
      const auto product = [&] { return linear == Linear::qkv ? p.column(w, forward) : p.row(w, forward); };
      generation = 7;
      EXPECT_NO_THROW(product());
      generation = 8;
      expect_error(product, forward ? "read in forward is of another pass or step"
                                    : "read in backward is of another pass or step");
    }
  }
}

}  // namespace
}  // namespace shard8

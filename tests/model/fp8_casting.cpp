// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "tests/model/fp8_module.hpp"

// Compares the casts of modules with those that are right, and gives them to the reference.

namespace shard8::tests {

using fp8::Linear;
using fp8::Site;
using reference::Cast;
using reference::CastRule;
using reference::Operands;
using tensor::DType;
using tensor::Operand;
using tensor::Scaling;
using tensor::Tensor;

namespace {

double value_at(const Tensor& t, std::int64_t i) {
  switch (t.dtype) {
    case DType::e4m3:
      return static_cast<double>(static_cast<float>(t.as<tensor::E4M3>()[i]));
    case DType::e5m2:
      return static_cast<double>(static_cast<float>(t.as<tensor::E5M2>()[i]));
    case DType::e8m0:
      return static_cast<double>(static_cast<float>(t.as<tensor::E8M0>()[i]));
    default:
      return static_cast<double>(t.as<float>()[i]);
  }
}

Cast see_one(const Operand& x) {
  Cast seen{Matrix(x.rows(), x.cols()), Matrix(x.rows(), x.cols())};
  for (std::int64_t i = 0; i < x.data.count(); ++i)
    seen.codes.values[static_cast<std::size_t>(i)] = value_at(x.data, i);
  std::int64_t block = 0;
  reference::for_each_block(x.scaling, x.rows(), x.cols(),
                            [&](std::int64_t r0, std::int64_t r1, std::int64_t c0, std::int64_t c1) {
                              const double inverse = value_at(x.scale_inv, block++);
                              for (std::int64_t r = r0; r < r1; ++r)
                                for (std::int64_t c = c0; c < c1; ++c) seen.inverse(r, c) = inverse;
                            });
  return seen;
}

/// Success if `seen` is the cast of some matrix that differs from x by at most `allowed`, element by element; otherwise
/// a failure with the first wrong block or element. If x shares its scale with other matrices, the amax of all of them
/// lies in [least_of_all, most_of_all].
testing::AssertionResult is_cast_of(const Cast& seen, const Matrix& x, const Matrix& allowed, const CastRule& rule,
                                    double least_of_all, double most_of_all) {
  constexpr double kRound = 0x1p-22;  // a scale, its inverse and the product are rounded to fp32
  auto result = testing::AssertionSuccess();
  int wrong = 0;
  const auto check = [&](std::int64_t r0, std::int64_t r1, std::int64_t c0, std::int64_t c1) {
    double least = 0, most = 0;
    for (std::int64_t r = r0; r < r1; ++r)
      for (std::int64_t c = c0; c < c1; ++c) {
        least = std::max(least, std::abs(x(r, c)) - allowed(r, c));
        most = std::max(most, std::abs(x(r, c)) + allowed(r, c));
      }
    if (rule.scaling == Scaling::tensor) {
      least = least_of_all;
      most = most_of_all;
    }
    const double inverse = seen.inverse(r0, c0);
    // A block that may be all zero may have any inverse scale up to the largest, or that of a block of zeros.
    const double low = least > 0 || rule.scale ? rule.factors(least).inverse * (1 - kRound) : 0;
    const double high = rule.factors(most).inverse * (1 + kRound);
    const bool of_zero = least <= 0 && inverse == rule.factors(0).inverse;
    if (!(inverse >= low && inverse <= high) && !of_zero && wrong++ == 0)
      result = testing::AssertionFailure() << "the block at (" << r0 << ", " << c0 << ") has the inverse scale "
                                           << inverse << ", not in [" << low << ", " << high << "]";
    for (std::int64_t r = r0; r < r1; ++r)
      for (std::int64_t c = c0; c < c1; ++c) {
        const double reach = allowed(r, c) + kRound * std::abs(x(r, c)), code = seen.codes(r, c);
        const double from = rule.round((x(r, c) - reach) / inverse), to = rule.round((x(r, c) + reach) / inverse);
        if (!(code >= from && code <= to && seen.inverse(r, c) == inverse) && wrong++ == 0)
          result = testing::AssertionFailure() << "(" << r << ", " << c << ") of " << x(r, c) << " is " << code
                                               << ", not in [" << from << ", " << to << "], inverse scale " << inverse;
      }
  };
  reference::for_each_block(rule.scaling, x.rows, x.cols, check);
  if (wrong > 1) result << "; " << wrong << " are wrong";
  return result;
}

}  // namespace

Fp8Module::Seen Fp8Module::see(const fp8::Operands& copies) {
  Seen seen{see_one(copies.rowwise), {}};
  seen.columnwise = copies.one() ? seen.rowwise : see_one(copies.columnwise);
  return seen;
}

reference::Casting Fp8Module::weight_casting(Linear linear) const {
  return [this, linear](const Matrix& w) {
    return Operands{weight_cast(linear, w, false).values(), weight_cast(linear, w, true).values()};
  };
}

Matrix Fp8Module::whole_of(const Share& share, const Matrix& mine) const {
  return share.of_tokens() ? whole_tokens(mine) : whole_columns(mine, share.columns, share.cols);
}

reference::Casting Fp8Module::exactly(const Site& s, Matrix source) const {
  return [this, s, source](const Matrix& x) {
    const Matrix& from = source.values.empty() ? x : source;
    EXPECT_TRUE(close(from, x)) << name_of(s.linear, s.role) << " before its cast";
    expect_amax(s, from);
    const auto values = [&](bool columnwise) {
      const Share mine = share(s);
      if (mine.of_tokens()) return reference::cast(from, rule(s, columnwise)).values();
      return whole_of(mine, cast_of(s, from, columnwise).values());
    };
    Operands copies{values(false), {}};
    copies.columnwise = recipe.two_copies(s.role) ? values(true) : copies.rowwise;
    return copies;
  };
}

reference::Casting Fp8Module::as_seen(const Site& s, Seen seen) const {
  return [this, s, seen](const Matrix& x) {
    expect_amax(s, x);
    Operands copies;
    copies.rowwise = checked(s, seen.rowwise, x, false);
    copies.columnwise = recipe.two_copies(s.role) ? checked(s, seen.columnwise, x, true) : copies.rowwise;
    return copies;
  };
}

Fp8Module::Amax Fp8Module::shared_amax(const Share& share, const Matrix& whole, const Matrix& allowed) const {
  const Matrix x = share.of_tokens() ? whole : part(share, whole);
  const Matrix error = share.of_tokens() ? allowed : part(share, allowed);
  Amax amax{0, 0};
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    amax.least = std::max(amax.least, std::abs(x.values[i]) - error.values[i]);
    amax.most = std::max(amax.most, std::abs(x.values[i]) + error.values[i]);
  }
  return amax;
}

Matrix Fp8Module::checked(const Site& s, const Cast& seen, const Matrix& x, bool columnwise) const {
  const Share mine = share(s);
  // Differences of nearly equal numbers, as in attention's gradient, have the rounding errors of these numbers.
  Matrix allowed = rounding(x);
  for (double& v : allowed.values) v *= 4;
  const Amax amax = shared_amax(mine, x, allowed);
  EXPECT_TRUE(is_cast_of(seen, part(mine, x), part(mine, allowed), rule(s, columnwise), amax.least, amax.most))
      << "cast of " << name_of(s.linear, s.role) << (columnwise ? " columnwise" : " rowwise");
  return whole_of(mine, seen.values());
}

void Fp8Module::expect_amax(const Site& s, const Matrix& x) const {
  if (!recipe.per_tensor()) return;
  const auto kept = static_cast<double>(std::bit_cast<float>(*state().amax(s).as<std::int32_t>()));
  if (!recipe.delayed()) {
    EXPECT_EQ(kept, 0) << "amax of " << name_of(s.linear, s.role) << " after its scale was made";
    return;
  }
  // Until the end of a step the amax is that of this rank's share. In the first step it is that of all shares, because
  // a shared scale needs it.
  const Share mine = share(s);
  const Matrix allowed = rounding(x);
  const Matrix own = part(mine, x), own_allowed = part(mine, allowed);
  const Amax amax = setting.known_scales() ? shared_amax({{}, 0}, own, own_allowed) : shared_amax(mine, x, allowed);
  EXPECT_GE(kept, amax.least) << "amax of " << name_of(s.linear, s.role);
  EXPECT_LE(kept, amax.most) << "amax of " << name_of(s.linear, s.role);
}

void Fp8Module::expect_share(const std::string& what, const Share& share, const Tensor& got, const Matrix& want) const {
  expect_close(what, get(got), part(share, want));
}

void Fp8Module::expect_gradient(int parameter, const Tensor& got, const Matrix& want) const {
  const auto& spec = whole_parameter(kLayer, parameter);
  if (spec.sharing.cut.contains(base::Axis::tensor))
    expect_close("gradient of " + spec.name, get(got), part_of(kLayer, parameter, want));
  else
    expect_close("gradient of " + spec.name, whole_gradient(kLayer, parameter, got), want);
}

}  // namespace shard8::tests

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/buffer.hpp"
#include "tests/support/compare.hpp"

namespace shard8::tests {
namespace {

using Doubles = std::vector<double>;

constexpr double kEps = 1e-5;

struct Statistics {
  double mean, rstd;
};
/// The statistics of one row, as the kernels compute them: the mean is 0 for RMSNorm.
Statistics statistics(const double* x, std::int64_t h, bool centred) {
  double mean = 0, squares = 0;
  for (std::int64_t i = 0; centred && i < h; ++i) mean += x[i] / static_cast<double>(h);
  for (std::int64_t i = 0; i < h; ++i) squares += (x[i] - mean) * (x[i] - mean) / static_cast<double>(h);
  return {mean, 1 / std::sqrt(squares + kEps)};
}

/// The reference: y (T, H) of x; bias may be empty.
Doubles reference_forward(const Doubles& x, const Doubles& w, const Doubles& bias, std::int64_t h, bool centred) {
  Doubles y(x.size());
  const auto n = static_cast<std::size_t>(h);
  for (std::size_t row = 0; row < x.size(); row += n) {
    const auto s = statistics(&x[row], h, centred);
    for (std::size_t c = 0; c < n; ++c)
      y[row + c] = (x[row + c] - s.mean) * s.rstd * w[c] + (bias.empty() ? 0 : bias[c]);
  }
  return y;
}

struct Gradients {
  Doubles dx, dw, db;
};
Gradients reference_backward(const Doubles& dy, const Doubles& x, const Doubles& w, std::int64_t h, bool centred) {
  Gradients g{Doubles(x.size()), Doubles(w.size()), Doubles(w.size())};
  const auto n = static_cast<std::size_t>(h);
  for (std::size_t row = 0; row < x.size(); row += n) {
    const auto s = statistics(&x[row], h, centred);
    double mean = 0, mean_n = 0;
    for (std::size_t c = 0; c < n; ++c) {
      const double hat = (x[row + c] - s.mean) * s.rstd;
      if (centred) mean += dy[row + c] * w[c] / static_cast<double>(h);
      mean_n += dy[row + c] * w[c] * hat / static_cast<double>(h);
      g.dw[c] += dy[row + c] * hat;
      g.db[c] += dy[row + c];
    }
    for (std::size_t c = 0; c < n; ++c) {
      const double hat = (x[row + c] - s.mean) * s.rstd;
      g.dx[row + c] = s.rstd * (dy[row + c] * w[c] - mean - hat * mean_n);
    }
  }
  return g;
}

const std::vector<Shape> kShapes{{1, 1},     {1, 7},    {3, 64},    {33, 65},  {17, 512},
                                 {600, 130}, {9, 4096}, {64, 1536}, {32, 8192}};

class Norm : public ::testing::TestWithParam<DType> {
 protected:
  Exec exec_;
  DType dtype_ = GetParam();
};
class Rmsnorm : public Norm {};
class Layernorm : public Norm {};

TEST_P(Rmsnorm, ForwardEqualsDoublePrecision) {
  for (const auto& shape : kShapes) {
    SCOPED_TRACE(to_string(shape));
    const auto x = Buffer::normal(shape, dtype_, 1, 3), w = Buffer::normal({shape[1]}, dtype_, 2);
    const Buffer y(shape, dtype_), rstd({shape[0]}, DType::fp32);
    kernels::rmsnorm_forward(exec_, y, rstd, x, w, static_cast<float>(kEps));
    // Two roundings to bf16: x·rstd and the product with the weight.
    EXPECT_TRUE(
        all_close(y.get(), reference_forward(x.get(), w.get(), {}, shape[1], false), {2.5 * rounding(dtype_), 1e-6}));
    Doubles want;
    const auto rows = x.get();
    for (std::int64_t t = 0; t < shape[0]; ++t) {
      want.push_back(statistics(rows.data() + t * shape[1], shape[1], false).rstd);
    }
    EXPECT_TRUE(all_close(rstd.get(), want, {1e-6, 0}));
  }
}

TEST_P(Rmsnorm, NormalizedRowIsRoundedBeforeTheWeight) {
  const Buffer x({1, 4}, dtype_, {1.0, 2.0, 3.0, 5.0}), w({4}, dtype_, {1.0625, 0.75, 3.0, 0.3});
  const Buffer y({1, 4}, dtype_), rstd({1}, DType::fp32);
  kernels::rmsnorm_forward(exec_, y, rstd, x, w, 0);
  const auto r = static_cast<float>(rstd.get()[0]);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto xi = static_cast<float>(x.get()[i]), wi = static_cast<float>(w.get()[i]);
    const Buffer hat({1}, dtype_, static_cast<double>(xi * r));
    const Buffer want({1}, dtype_, static_cast<double>(wi * static_cast<float>(hat.get()[0])));
    EXPECT_EQ(y.get()[i], want.get()[0]) << i;
  }
}

TEST_P(Rmsnorm, BackwardEqualsDoublePrecision) {
  for (const auto& shape : kShapes) {
    SCOPED_TRACE(to_string(shape));
    const auto x = Buffer::normal(shape, dtype_, 3), w = Buffer::normal({shape[1]}, dtype_, 4);
    const auto dy = Buffer::normal(shape, dtype_, 5), residual = Buffer::normal(shape, dtype_, 6);
    const Buffer y(shape, dtype_), rstd({shape[0]}, DType::fp32), dx(shape, dtype_);
    const Buffer dw({shape[1]}, DType::fp32, 0.5);
    const auto work = Buffer::bytes(kernels::norm_workspace_bytes(shape[0], shape[1]));
    kernels::rmsnorm_forward(exec_, y, rstd, x, w, static_cast<float>(kEps));
    kernels::rmsnorm_backward(exec_, dx, dw, dy, x, rstd, w, residual, work);
    auto want = reference_backward(dy.get(), x.get(), w.get(), shape[1], false);
    for (auto& v : want.dw) v += 0.5;  // gradients are added to what was there
    auto dx_want = want.dx;
    const auto added = residual.get();
    for (std::size_t i = 0; i < dx_want.size(); ++i) dx_want[i] += added[i];
    const double sum_error = 1e-6 * std::sqrt(static_cast<double>(shape[0]));
    EXPECT_TRUE(all_close(dx.get(), dx_want, {rounding(dtype_), 3e-6}));
    EXPECT_TRUE(all_close(dw.get(), want.dw, {1e-6, 4 * sum_error}));

    kernels::rmsnorm_backward(exec_, dx, dw, dy, x, rstd, w, Tensor{}, work);
    EXPECT_TRUE(all_close(dx.get(), want.dx, {rounding(dtype_), 3e-6})) << "without a residual";
    kernels::rmsnorm_backward(exec_, residual, dw, dy, x, rstd, w, residual, work);
    EXPECT_TRUE(all_close(residual.get(), dx_want, {rounding(dtype_), 3e-6})) << "in place";
  }
}

TEST_P(Layernorm, ForwardEqualsDoublePrecision) {
  for (const auto& shape : kShapes) {
    SCOPED_TRACE(to_string(shape));
    auto x = Buffer::normal(shape, dtype_, 1, 2);
    auto values = x.get();
    for (auto& v : values) v += 5;  // x − mean cancels most digits
    x.set(values);
    const auto w = Buffer::normal({shape[1]}, dtype_, 2), b = Buffer::normal({shape[1]}, dtype_, 3);
    const Buffer y(shape, dtype_), mean({shape[0]}, DType::fp32), rstd({shape[0]}, DType::fp32);
    kernels::layernorm_forward(exec_, y, mean, rstd, x, w, b, static_cast<float>(kEps));
    // The mean, 5, has an error of up to 2^-20 of itself without vector code; rstd·w is up to 2.
    EXPECT_TRUE(
        all_close(y.get(), reference_forward(x.get(), w.get(), b.get(), shape[1], true), {rounding(dtype_), 1e-5}));
    Doubles means, rstds;
    values = x.get();
    for (std::int64_t t = 0; t < shape[0]; ++t) {
      const auto want = statistics(values.data() + t * shape[1], shape[1], true);
      means.push_back(want.mean);
      rstds.push_back(want.rstd);
    }
    EXPECT_TRUE(all_close(mean.get(), means, {1e-6, 0}));
    EXPECT_TRUE(all_close(rstd.get(), rstds, {3e-6, 0}));
  }
}

TEST_P(Layernorm, BackwardEqualsDoublePrecision) {
  for (const auto& shape : kShapes) {
    if (shape[1] == 1) continue;  // dx is 0 times 1/sqrt(eps)
    SCOPED_TRACE(to_string(shape));
    const auto x = Buffer::normal(shape, dtype_, 3), w = Buffer::normal({shape[1]}, dtype_, 4);
    const auto b = Buffer::normal({shape[1]}, dtype_, 9);
    const auto dy = Buffer::normal(shape, dtype_, 5), residual = Buffer::normal(shape, dtype_, 6);
    const Buffer y(shape, dtype_), mean({shape[0]}, DType::fp32), rstd({shape[0]}, DType::fp32), dx(shape, dtype_);
    const Buffer dw({shape[1]}, DType::fp32, 0.5), db({shape[1]}, DType::fp32, -0.5);
    const auto work = Buffer::bytes(kernels::norm_workspace_bytes(shape[0], shape[1]));
    kernels::layernorm_forward(exec_, y, mean, rstd, x, w, b, static_cast<float>(kEps));
    kernels::layernorm_backward(exec_, dx, dw, db, dy, x, mean, rstd, w, residual, work);
    auto want = reference_backward(dy.get(), x.get(), w.get(), shape[1], true);
    for (auto& v : want.dw) v += 0.5;
    for (auto& v : want.db) v -= 0.5;
    auto dx_want = want.dx;
    const auto added = residual.get();
    for (std::size_t i = 0; i < dx_want.size(); ++i) dx_want[i] += added[i];
    const double sum_error = 1e-6 * std::sqrt(static_cast<double>(shape[0]));
    EXPECT_TRUE(all_close(dx.get(), dx_want, {rounding(dtype_), 3e-6}));
    EXPECT_TRUE(all_close(dw.get(), want.dw, {1e-6, 4 * sum_error}));
    EXPECT_TRUE(all_close(db.get(), want.db, {1e-6, 4 * sum_error}));

    kernels::layernorm_backward(exec_, dx, dw, db, dy, x, mean, rstd, w, Tensor{}, work);
    EXPECT_TRUE(all_close(dx.get(), want.dx, {rounding(dtype_), 3e-6})) << "without a residual";
    kernels::layernorm_backward(exec_, residual, dw, db, dy, x, mean, rstd, w, residual, work);
    EXPECT_TRUE(all_close(residual.get(), dx_want, {rounding(dtype_), 3e-6})) << "in place";
  }
}

/// `count` tensors of normal numbers, and their sum as kernels add them.
struct Parts {
  std::vector<Buffer> parts;
  tensor::PartialSums partial_sums;
  Buffer sum;

  Parts(const Shape& shape, DType dtype, int count) : sum(shape, dtype) {
    std::vector<float> sums(static_cast<std::size_t>(shape.count()));
    for (int k = 0; k < count; ++k) {
      parts.push_back(Buffer::normal(shape, dtype, 20 + static_cast<std::uint64_t>(k)));
      partial_sums.add(parts.back());
      const Doubles values = parts.back().get();
      for (std::size_t i = 0; i < sums.size(); ++i)
        sums[i] = k == 0 ? static_cast<float>(values[i]) : sums[i] + static_cast<float>(values[i]);
    }
    sum.set(Doubles(sums.begin(), sums.end()));
  }
};

/// Calls backward(shape, dy, dx) with dy in partial sums, and with dy as their sum, and expects the same gradients. A
/// device reads rows of whole packs in another kernel than others.
template <class Backward>
void expect_partial_sums_as_their_sum(DType dtype, const Backward& backward) {
  for (const Shape& shape : {Shape{300, 256}, Shape{17, 33}, Shape{64, 4096}}) {
    for (int count = 1; count <= tensor::PartialSums::kMost; ++count) {
      SCOPED_TRACE(testing::Message() << to_string(shape) << ", " << count << " partial sums");
      const Parts dy(shape, dtype, count);
      const Buffer dx(shape, dtype), dx_of_sum(shape, dtype);
      const Doubles gradients = backward(shape, dy.partial_sums, dx), of_sum = backward(shape, dy.sum, dx_of_sum);
      if (tensor::kDevice) {
        EXPECT_TRUE(same_bits(gradients, of_sum));
        EXPECT_TRUE(same_bits(dx.get(), dx_of_sum.get()));
      } else {  // compilers contract products and sums in one loop, but not in another
        EXPECT_TRUE(all_close(gradients, of_sum, {1e-5, 1e-3}));
        EXPECT_TRUE(all_close(dx.get(), dx_of_sum.get(), {2 * rounding(dtype), 1e-5}));
      }
    }
  }
}

TEST_P(Rmsnorm, BackwardOfPartialSumsIsThatOfTheirSum) {
  for (const bool adds : {false, true}) {
    expect_partial_sums_as_their_sum(dtype_, [&](const Shape& shape, const tensor::PartialSums& dy, const Buffer& dx) {
      const auto x = Buffer::normal(shape, dtype_, 3), w = Buffer::normal({shape[1]}, dtype_, 4);
      const auto residual = Buffer::normal(shape, dtype_, 6);
      const auto rstd = Buffer::normal({shape[0]}, DType::fp32, 7);
      const Buffer dw({shape[1]}, DType::fp32, 0.5);
      const auto work = Buffer::bytes(kernels::norm_workspace_bytes(shape[0], shape[1]));
      kernels::rmsnorm_backward(exec_, dx, dw, dy, x, rstd, w, adds ? residual : Tensor{}, work);
      return dw.get();
    });
  }
}

TEST_P(Layernorm, BackwardOfPartialSumsIsThatOfTheirSum) {
  for (const bool adds : {false, true}) {
    expect_partial_sums_as_their_sum(dtype_, [&](const Shape& shape, const tensor::PartialSums& dy, const Buffer& dx) {
      const auto x = Buffer::normal(shape, dtype_, 3), w = Buffer::normal({shape[1]}, dtype_, 4);
      const auto residual = Buffer::normal(shape, dtype_, 6);
      const auto mean = Buffer::normal({shape[0]}, DType::fp32, 7), rstd = Buffer::normal({shape[0]}, DType::fp32, 8);
      const Buffer dw({shape[1]}, DType::fp32, 0.5), db({shape[1]}, DType::fp32, -0.5);
      const auto work = Buffer::bytes(kernels::norm_workspace_bytes(shape[0], shape[1]));
      kernels::layernorm_backward(exec_, dx, dw, db, dy, x, mean, rstd, w, adds ? residual : Tensor{}, work);
      Doubles gradients = dw.get();
      const Doubles biases = db.get();
      gradients.insert(gradients.end(), biases.begin(), biases.end());
      return gradients;
    });
  }
}

/// Expects the same results of forward(shape, x), and the sum, if x is partial sums, its sum in memory of its own or of
/// a partial sum, and if it is made. A device takes some shapes with one kernel that also makes the sum.
template <class Forward>
void expect_forward_makes_its_input(DType dtype, const Forward& forward) {
  for (const Shape& shape : {Shape{3, 65}, Shape{64, 512}, Shape{96, 4096}, Shape{32, 8192}}) {
    const std::vector<int> counts = tensor::kDevice ? std::vector{5, 2, 3, 4, 5} : std::vector{5};
    for (const int count : counts) {
      SCOPED_TRACE(testing::Message() << to_string(shape) << ", " << count << " partial sums");
      const Doubles made = forward(shape, Parts(shape, dtype, count).sum);
      for (const int in : {-1, 0, count - 1}) {
        const Parts x(shape, dtype, count);
        const Buffer own(shape, dtype);
        const Tensor sum = in < 0 ? own.tensor() : x.partial_sums[in];
        const Doubles from_partial_sums = forward(shape, tensor::SumOfPartials(x.partial_sums, sum));
        EXPECT_TRUE(same_bits(in < 0 ? own.get() : x.parts[static_cast<std::size_t>(in)].get(), x.sum.get()));
        EXPECT_TRUE(same_bits(from_partial_sums, made));
      }
    }
  }
}

TEST_P(Rmsnorm, ForwardMakesItsInput) {
  for (const bool casts : {false, true}) {
    for (const bool transposes : {false, true}) {
      if (transposes && !casts) continue;
      expect_forward_makes_its_input(dtype_, [&](const Shape& shape, const tensor::SumOfPartials& x) {
        const auto w = Buffer::normal({shape[1]}, dtype_, 2);
        const Buffer plain(shape, dtype_), rstd({shape[0]}, DType::fp32);
        const Buffer scale({1}, DType::fp32, 200.0), scale_inv({1}, DType::fp32), amax({1}, DType::i32);
        const Buffer codes(shape, DType::e4m3), columnwise({shape[1], shape[0]}, DType::e4m3);
        const Buffer counts = Buffer::bytes(sizeof(kernels::CastCounts));  // many elements saturate
        kernels::Outputs y = plain.tensor();
        if (casts) {
          y.plain = {};
          y.quantized = {codes.tensor(), scale_inv.tensor(), tensor::Scaling::tensor};
          y.scale = scale;
          y.amax = amax;
          y.counts = reinterpret_cast<kernels::CastCounts*>(counts.tensor().data);
          if (transposes) y.transposed = columnwise;
        }
        kernels::rmsnorm_forward(exec_, y, rstd, x, w, static_cast<float>(kEps));
        Doubles results;
        for (const Buffer* more : {&plain, &rstd, &codes, &columnwise, &amax, &counts}) {
          const Doubles values = more->get();
          results.insert(results.end(), values.begin(), values.end());
        }
        return results;
      });
    }
  }
}

TEST_P(Layernorm, ForwardMakesItsInput) {
  expect_forward_makes_its_input(dtype_, [&](const Shape& shape, const tensor::SumOfPartials& x) {
    const auto w = Buffer::normal({shape[1]}, dtype_, 2), b = Buffer::normal({shape[1]}, dtype_, 3);
    const Buffer plain(shape, dtype_), mean({shape[0]}, DType::fp32), rstd({shape[0]}, DType::fp32);
    kernels::layernorm_forward(exec_, plain, mean, rstd, x, w, b, static_cast<float>(kEps));
    Doubles results = plain.get();
    for (const Buffer* more : {&mean, &rstd}) {
      const Doubles values = more->get();
      results.insert(results.end(), values.begin(), values.end());
    }
    return results;
  });
}

TEST(NormPartialSums, OfAnotherShapeOrNoneAreErrors) {
  const auto a = Buffer::normal({4, 8}, DType::fp32, 1), b = Buffer::normal({8, 4}, DType::fp32, 2);
  tensor::PartialSums dy(a);
  EXPECT_THROW(dy.add(b), base::Error);
  for (int k = 1; k < tensor::PartialSums::kMost; ++k) dy.add(a);
  EXPECT_THROW(dy.add(a), base::Error);
  const Buffer dx({4, 8}, DType::fp32), dw({8}, DType::fp32), rstd({4}, DType::fp32);
  const auto work = Buffer::bytes(kernels::norm_workspace_bytes(4, 8));
  EXPECT_THROW(kernels::rmsnorm_backward(tensor::Exec(), dx, dw, tensor::PartialSums(), a, rstd, dw, Tensor{}, work),
               base::Error);
}

INSTANTIATE_TEST_SUITE_P(, Rmsnorm, ::testing::Values(DType::fp32, DType::bf16));
INSTANTIATE_TEST_SUITE_P(, Layernorm, ::testing::Values(DType::fp32, DType::bf16));

/// The reference's gradients against its own forward, by central differences in double.
TEST(NormReference, GradientsAreDerivatives) {
  const std::int64_t h = 5;
  for (const bool centred : {false, true}) {
    auto x = Buffer::normal({3, h}, DType::fp32, 7).get();
    auto w = Buffer::normal({h}, DType::fp32, 8).get();
    const auto dy = Buffer::normal({3, h}, DType::fp32, 9).get();
    const auto g = reference_backward(dy, x, w, h, centred);
    const auto objective = [&] {
      const auto y = reference_forward(x, w, {}, h, centred);
      double sum = 0;
      for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
      return sum;
    };
    const auto slope = [&](double& v) {
      const double kept = v, step = 1e-5;
      v = kept + step;
      const double up = objective();
      v = kept - step;
      const double down = objective();
      v = kept;
      return (up - down) / (2 * step);
    };
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(slope(x[i]), g.dx[i], 1e-7) << i;
    for (std::size_t i = 0; i < w.size(); ++i) EXPECT_NEAR(slope(w[i]), g.dw[i], 1e-7) << i;
  }
}

/// Parameter gradients are sums over all rows, cut in a way that the threads do not change.
TEST(NormThreads, GradientsDoNotDependOnThreads) {
  const Shape shape{5000, 33};
  const auto x = Buffer::normal(shape, DType::fp32, 3), w = Buffer::normal({33}, DType::fp32, 4);
  const auto dy = Buffer::normal(shape, DType::fp32, 5);
  const auto work = Buffer::bytes(kernels::norm_workspace_bytes(shape[0], shape[1]));
  std::vector<Doubles> dws, dbs;
  for (const auto& exec : exec_widths()) {
    for (int repeat = 0; repeat < 2; ++repeat) {
      const Buffer y(shape, DType::fp32), mean({shape[0]}, DType::fp32), rstd({shape[0]}, DType::fp32);
      const Buffer dx(shape, DType::fp32), dw({33}, DType::fp32), db({33}, DType::fp32);
      kernels::layernorm_forward(exec, y, mean, rstd, x, w, w, 1e-5f);
      kernels::layernorm_backward(exec, dx, dw, db, dy, x, mean, rstd, w, Tensor{}, work);
      kernels::rmsnorm_forward(exec, y, rstd, x, w, 1e-5f);
      kernels::rmsnorm_backward(exec, dx, dw, dy, x, rstd, w, Tensor{}, work);
      dws.push_back(dw.get());
      dbs.push_back(db.get());
    }
  }
  ASSERT_GE(dws.size(), 2u);
  for (std::size_t i = 1; i < dws.size(); ++i) {
    EXPECT_TRUE(same_bits(dws[i], dws[0])) << i;
    EXPECT_TRUE(same_bits(dbs[i], dbs[0])) << i;
  }
}

}  // namespace
}  // namespace shard8::tests

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <optional>

#include "kernels/cuda/gemm.hpp"
#include "kernels/planned/device_memory.hpp"
#include "tests/kernels/cuda/device_memory.hpp"
#include "tests/kernels/cuda/totals.hpp"

namespace shard8::test {
namespace {

namespace cuda = kernels::cuda;
using tensor::BFloat16;
using tensor::DType;
using tensor::Operand;
using tensor::Scaling;
using tensor::Tensor;
using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kBehind = 4096;
constexpr std::uint8_t kFilled = 0xa5;

template <class T>
void append(Bytes& bytes, T value) {
  const auto* const first = reinterpret_cast<const std::uint8_t*>(&value);
  bytes.insert(bytes.end(), first, first + sizeof(T));
}

/// Appends the number, rounded to the dtype, to the bytes. Returns the rounded number.
float append_rounded(Bytes& bytes, DType dtype, float value) {
  const auto put = [&](auto rounded) {
    append(bytes, rounded);
    return static_cast<float>(rounded);
  };
  switch (dtype) {
    case DType::bf16:
      return put(static_cast<BFloat16>(value));
    case DType::e4m3:
      return put(tensor::E4M3(value));
    case DType::e5m2:
      return put(tensor::E5M2(value));
    default:
      return put(value);
  }
}

Tensor tensor_at(const DeviceMemory& memory, const tensor::Shape& shape, DType dtype) {
  return {reinterpret_cast<std::byte*>(memory.data()), shape, dtype};
}

/// A random matrix (rows, cols) on the device, and its values on the host.
class Matrix {
 public:
  Matrix(cudaStream_t stream, std::int64_t rows, std::int64_t cols, DType dtype, Scaling scaling, bool transposed,
         std::uint64_t seed)
      : rows_(rows), cols_(cols), values_(static_cast<std::size_t>(rows * cols)) {
    const float stretch = stretch_of(dtype);
    const std::int64_t lines = transposed ? cols : rows, length = transposed ? rows : cols;
    Bytes data, scales;
    for (std::int64_t i = 0; i < lines; ++i) {
      for (std::int64_t j = 0; j < length; ++j) {
        const std::int64_t at = transposed ? j * cols + i : i * cols + j;
        values_[static_cast<std::size_t>(at)] =
            append_rounded(data, dtype, number(seed, static_cast<std::uint64_t>(at), false) * stretch);
      }
    }
    if (scaling != Scaling::none) add_scales(scales, scaling, seed, stretch);
    data_.emplace(data.size());
    data_->upload(stream, data);
    scales_.emplace(scales.size());
    scales_->upload(stream, scales);
    operand_.data = tensor_at(*data_, {lines, length}, dtype);
    operand_.scaling = scaling;
    operand_.transposed = transposed;
    if (scaling == Scaling::none) return;
    operand_.scale_inv = tensor_at(*scales_, scale_shape(scaling, rows, cols), scale_dtype(scaling));
  }

  const Operand& operand() const { return operand_; }
  double at(std::int64_t r, std::int64_t c) const { return values_[static_cast<std::size_t>(r * cols_ + c)]; }

 private:
  void add_scales(Bytes& scales, Scaling scaling, std::uint64_t seed, float stretch) {
    const std::int64_t height = scaling == Scaling::tensor ? rows_ : block_rows(scaling);
    const std::int64_t width = scaling == Scaling::tensor ? cols_ : block_cols(scaling);
    for (std::int64_t r = 0; r < rows_; r += height) {
      for (std::int64_t c = 0; c < cols_; c += width) {
        float scale = scale_inv(seed, r / height, c / width, stretch);
        if (scale_dtype(scaling) == DType::e8m0) {
          const auto exponent = static_cast<std::uint8_t>(std::ilogb(scale) + 127);
          scale = std::ldexp(1.0f, exponent - 127);
          append(scales, exponent);
        } else {
          append(scales, scale);
        }
        for (std::int64_t i = r; i < r + height; ++i) {
          for (std::int64_t j = c; j < c + width; ++j) values_[static_cast<std::size_t>(i * cols_ + j)] *= scale;
        }
      }
    }
  }

  std::int64_t rows_, cols_;
  std::vector<double> values_;
  std::optional<DeviceMemory> data_, scales_;
  Operand operand_;
};

/// The dtypes and scalings of x, w and dy.
struct Recipe {
  const char* name;
  DType forward, gradient;
  Scaling rowwise, columnwise, weight_rowwise, weight_columnwise;
  Sum fprop, backward;
};
constexpr Recipe kRecipes[] = {
    {"fp32", DType::fp32, DType::fp32, Scaling::none, Scaling::none, Scaling::none, Scaling::none, kPlain, kPlain},
    {"bf16", DType::bf16, DType::bf16, Scaling::none, Scaling::none, Scaling::none, Scaling::none, kPlain, kPlain},
    {"tensor", DType::e4m3, DType::e5m2, Scaling::tensor, Scaling::tensor, Scaling::tensor, Scaling::tensor, kFast,
     kSplit},
    {"block", DType::e4m3, DType::e4m3, Scaling::row_128, Scaling::column_128, Scaling::tile_128, Scaling::tile_128,
     kBlock, kBlock},
    {"mxfp8", DType::e4m3, DType::e4m3, Scaling::row_32, Scaling::column_32, Scaling::row_32, Scaling::column_32,
     kPlain, kPlain},
};

struct Size {
  std::int64_t t, k, n;
};

class Linear {
 public:
  Linear(cuda::LtGemm& gemm, cudaStream_t stream, const Recipe& recipe, const Size& size, bool transposed,
         Totals& totals)
      : gemm_(gemm), stream_(stream), recipe_(recipe), s_(size), transposed_(transposed), totals_(totals) {
    const DType dtype = recipe.forward;
    bytes_ = cuda::gemm_memory_bytes(dtype, s_.t, s_.k, s_.n, recipe.rowwise, transposed);
    totals.expect(bytes_ <= cuda::gemm_memory_bytes(dtype, s_.t, s_.k, s_.n, Scaling::none, false),
                  name("workspace") + " is larger where more is known of it");
    memory_.emplace(bytes_ + kBehind);
    SHARD8_CUDA_CHECK(cudaMemsetAsync(memory_->data() + bytes_, kFilled, kBehind, stream));
  }

  void fprop(DType out, std::optional<DType> bias_dtype, bool with_residual = false) {
    const Matrix x(stream_, s_.t, s_.k, recipe_.forward, recipe_.rowwise, false, 1);
    const Matrix w(stream_, s_.n, s_.k, recipe_.forward, recipe_.weight_rowwise, false, 2);
    const std::optional<Matrix> bias = bias_of(bias_dtype);
    const std::optional<Matrix> residual =
        with_residual ? std::optional<Matrix>(std::in_place, stream_, s_.t, s_.n, out, Scaling::none, false, 6)
                      : std::nullopt;
    const Tensor none;
    const auto want = [&](std::int64_t r, std::int64_t c) {
      return reference(
          s_.k, [&](std::int64_t i) { return x.at(r, i) * w.at(c, i); },
          (bias ? bias->at(0, c) : 0.0) + (residual ? residual->at(r, c) : 0.0));
    };
    compare(name("fprop") + (bias ? " with bias" : "") + (residual ? " on a residual" : ""), s_.t, s_.n, out,
            recipe_.fprop, false, s_.k, want, [&](const Tensor& y, const Tensor& memory) {
              const Tensor b = bias ? bias->operand().data.reshaped({s_.n}) : none;
              cuda::gemm_fprop(gemm_, stream_, y, x.operand(), w.operand(), b, memory,
                               residual ? residual->operand().data : none);
            });
  }

  void dgrad(DType out, bool accumulate, bool weight_transposed = false) {
    const Matrix dy(stream_, s_.t, s_.n, recipe_.gradient, recipe_.rowwise, false, 3);
    const Matrix w(stream_, s_.n, s_.k, recipe_.forward, recipe_.weight_columnwise, weight_transposed, 2);
    const auto want = [&](std::int64_t r, std::int64_t c) {
      return reference(
          s_.n, [&](std::int64_t i) { return dy.at(r, i) * w.at(i, c); }, 0);
    };
    compare(name("dgrad") + (weight_transposed ? ", the weight too" : ""), s_.t, s_.k, out, recipe_.backward,
            accumulate, s_.n, want, [&](const Tensor& dx, const Tensor& memory) {
              cuda::gemm_dgrad(gemm_, stream_, dx, dy.operand(), w.operand(), accumulate, memory);
            });
  }

  void wgrad(bool accumulate) {
    const Matrix dy(stream_, s_.t, s_.n, recipe_.gradient, recipe_.columnwise, transposed_, 3);
    const Matrix x(stream_, s_.t, s_.k, recipe_.forward, recipe_.columnwise, transposed_, 1);
    const auto want = [&](std::int64_t r, std::int64_t c) {
      return reference(
          s_.t, [&](std::int64_t i) { return dy.at(i, r) * x.at(i, c); }, 0);
    };
    compare(name("wgrad"), s_.n, s_.k, DType::fp32, recipe_.backward, accumulate, s_.t, want,
            [&](const Tensor& dw, const Tensor& memory) {
              cuda::gemm_wgrad(gemm_, stream_, dw, dy.operand(), x.operand(), accumulate, memory);
            });
  }

 private:
  struct Value {
    double value = 0, magnitude = 0;
  };

  template <class F>
  static Value reference(std::int64_t depth, const F& term, double bias) {
    Value v{bias, 0};
    for (std::int64_t i = 0; i < depth; ++i) {
      const double product = term(i);
      v.value += product;
      v.magnitude += std::fabs(product);
    }
    return v;
  }

  std::string name(const char* product) const {
    return std::string(recipe_.name) + " " + product + " T " + std::to_string(s_.t) + " K " + std::to_string(s_.k) +
           " N " + std::to_string(s_.n) + (transposed_ ? " transposed" : "");
  }

  std::optional<Matrix> bias_of(std::optional<DType> dtype) const {
    if (!dtype) return std::nullopt;
    return std::optional<Matrix>(std::in_place, stream_, 1, s_.n, *dtype, Scaling::none, false, 4);
  }

  float out_at(const Bytes& bytes, DType dtype, std::int64_t i) const {
    const auto at = static_cast<std::size_t>(i);
    return dtype == DType::fp32 ? reinterpret_cast<const float*>(bytes.data())[at]
                                : static_cast<float>(reinterpret_cast<const BFloat16*>(bytes.data())[at]);
  }

  /// Compares every 17th row in full, and checks that all rows were written.
  template <class Want, class Run>
  void compare(const std::string& what, std::int64_t rows, std::int64_t cols, DType dtype, Sum sum, bool accumulate,
               std::int64_t depth, const Want& want, const Run& run) {
    const auto count = static_cast<std::size_t>(rows * cols);
    Bytes before;
    for (std::size_t i = 0; i < count; ++i) {
      append_rounded(before, dtype, accumulate ? number(5, i, false) : std::nanf(""));
    }
    const DeviceMemory out(before.size());
    out.upload(stream_, before);
    const Tensor y = tensor_at(out, {rows, cols}, dtype);
    const Tensor memory = tensor_at(*memory_, {static_cast<std::int64_t>(bytes_)}, DType::u8);
    run(y, memory);
    const Bytes got = out.download<std::uint8_t>(stream_, before.size());
    std::int64_t missing = 0;
    for (std::int64_t i = 0; i < rows * cols; ++i) missing += std::isfinite(out_at(got, dtype, i)) ? 0 : 1;
    totals_.expect(missing == 0, what + ": " + std::to_string(missing) + " elements are not finite");

    double worst = 0;  // the largest ratio of error and bound
    std::string where;
    for (std::int64_t r = 0; r < rows; r += 17) {
      for (std::int64_t c = 0; c < cols; ++c) {
        const Value v = want(r, c);
        const double ref = v.value + (accumulate ? out_at(before, dtype, r * cols + c) : 0.0);
        const double is = out_at(got, dtype, r * cols + c);
        const double bound = 0x1p-8 * std::fabs(ref) + allowed_eps(sum, depth, false) * v.magnitude;
        const double error = std::fabs(is - ref), share = error == 0 ? 0 : error / bound;
        if (share <= worst) continue;
        worst = share;
        where = "(" + std::to_string(r) + ", " + std::to_string(c) + ") is " + std::to_string(is) + ", should be " +
                std::to_string(ref);
      }
    }
    totals_.expect(worst <= 1,
                   what + ": " + where + ", an error of " + std::to_string(worst) + " times what is allowed");
    const Bytes behind = memory_->download<std::uint8_t>(stream_, bytes_ + kBehind);
    bool untouched = true;
    for (std::size_t i = bytes_; i < behind.size(); ++i) untouched = untouched && behind[i] == kFilled;
    totals_.expect(untouched, what + " writes behind its workspace");
  }

  cuda::LtGemm& gemm_;
  cudaStream_t stream_;
  const Recipe& recipe_;
  Size s_;
  bool transposed_;
  Totals& totals_;
  std::size_t bytes_ = 0;
  std::optional<DeviceMemory> memory_;
};

}  // namespace

void check_linear(cudaStream_t stream, Totals& totals) {
  cuda::LtGemm gemm;
  for (const Recipe& recipe : kRecipes) {
    const bool float8 = recipe.rowwise != Scaling::none, fp32 = recipe.forward == DType::fp32;
    const bool emulated = recipe.rowwise == Scaling::row_32;
    // 3, 5 and 8 blocks of 128 in each direction: scales with and without padding.
    for (const Size& size : {Size{256, 384, 640}, Size{1024, 512, 384}, Size{384, 1024, 128}}) {
      for (const bool transposed : {false, true}) {
        if (transposed && (!float8 || emulated)) continue;
        Linear linear(gemm, stream, recipe, size, transposed, totals);
        for (const DType out : {DType::bf16, DType::fp32}) {
          if (fp32 && out == DType::bf16) continue;
          linear.fprop(out, std::nullopt);
          // FP8 operands take a bias of the output's dtype, others a bias of their own dtype.
          linear.fprop(out, float8 ? out : recipe.forward);
          linear.fprop(out, std::nullopt, true);
          if (!float8 || out == DType::bf16) linear.fprop(out, recipe.forward == DType::fp32 ? out : DType::bf16, true);
          linear.dgrad(out, false);
          if (transposed) linear.dgrad(out, false, true);
          if (out == DType::fp32) linear.dgrad(out, true);
        }
        linear.wgrad(false);
        linear.wgrad(true);
      }
    }
  }
  // Nothing to sum: the result is zeros, or what was there, or the bias. Nothing to write: nothing happens.
  for (const Recipe& recipe : kRecipes) {
    if (recipe.rowwise != Scaling::none && recipe.rowwise != Scaling::tensor) continue;
    Linear no_tokens(gemm, stream, recipe, {0, 64, 32}, false, totals);
    no_tokens.wgrad(false);
    no_tokens.wgrad(true);
    no_tokens.fprop(DType::fp32, std::nullopt);
    no_tokens.dgrad(DType::fp32, false);
    Linear no_inputs(gemm, stream, recipe, {48, 0, 32}, false, totals);
    no_inputs.fprop(DType::fp32, std::nullopt);
    no_inputs.fprop(DType::fp32, recipe.forward == DType::bf16 ? DType::bf16 : DType::fp32);
  }
}

}  // namespace shard8::test

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/check/gemm.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "kernels/check/arguments.hpp"

namespace shard8::kernels {
namespace {

using tensor::DType;
using tensor::Scaling;

// Blocks must run along the dimension that a product sums over. Activations and gradients have blocks of one row or one
// column; weights have square blocks, which serve both directions.
constexpr std::array kByRows = {Scaling::tensor, Scaling::row_128, Scaling::row_32};
constexpr std::array kByColumns = {Scaling::tensor, Scaling::column_128, Scaling::column_32};
constexpr std::array kWeightByRows = {Scaling::tensor, Scaling::tile_128, Scaling::row_32};
constexpr std::array kWeightByColumns = {Scaling::tensor, Scaling::tile_128, Scaling::column_32};

std::string list_of(std::span<const Scaling> scalings) {
  std::string list;
  for (const Scaling s : scalings) list += fmt::format("{}{}", list.empty() ? "" : ", ", name_of(s));
  return list;
}

void check_scales(const char* kernel, const Factor& f) {
  const tensor::Operand& m = f.matrix;
  SHARD8_REQUIRE(std::find(f.scalings.begin(), f.scalings.end(), m.scaling) != f.scalings.end(),
                 "{}: {} is {} with scaling {}; scaled along what is summed over, allowed are {}", kernel, f.name,
                 name_of(m.data.dtype), name_of(m.scaling), list_of(f.scalings));
  const auto height = block_rows(m.scaling), width = block_cols(m.scaling);
  SHARD8_REQUIRE(m.rows() % height == 0 && m.cols() % width == 0,
                 "{}: {} ({}, {}) cannot be cut into whole {}x{} blocks", kernel, f.name, m.rows(), m.cols(), height,
                 width);
  const auto shape = scale_shape(m.scaling, m.rows(), m.cols());
  SHARD8_REQUIRE(m.scale_inv.dtype == scale_dtype(m.scaling) && m.scale_inv.count() == shape.count(),
                 "{}: {} ({}, {}) with scaling {} has scales {} of {}; needed are {} of {}", kernel, f.name, m.rows(),
                 m.cols(), name_of(m.scaling), to_string(m.scale_inv.shape), name_of(m.scale_inv.dtype),
                 to_string(shape), name_of(scale_dtype(m.scaling)));
}

void check_factor(const char* kernel, const Factor& f) {
  SHARD8_REQUIRE(f.matrix.matrix_scale_inv == nullptr, "{}: {} has a second level of scales, which no product reads",
                 kernel, f.name);
  const DType dtype = f.matrix.data.dtype;
  if (tensor::is_float8(dtype)) return check_scales(kernel, f);
  SHARD8_REQUIRE(dtype == DType::fp32 || dtype == DType::bf16, "{}: {} is {}; allowed are fp32, bf16, e4m3 and e5m2",
                 kernel, f.name, name_of(dtype));
  SHARD8_REQUIRE(f.matrix.scaling == Scaling::none, "{}: {} is {} with scaling {}; only e4m3 and e5m2 have scales",
                 kernel, f.name, name_of(dtype), name_of(f.matrix.scaling));
}

}  // namespace

Product fprop_product(const tensor::Tensor& y, const tensor::Operand& x, const tensor::Operand& w,
                      const tensor::Tensor& bias) {
  return {.c = y,
          .a = {.name = "x", .matrix = x, .scalings = kByRows},
          .b = {.name = "w", .matrix = w, .transposed = true, .scalings = kWeightByRows},
          .bias = bias,
          .m = x.rows(),
          .n = w.rows(),
          .k = w.cols()};
}

Product dgrad_product(const tensor::Tensor& dx, const tensor::Operand& dy, const tensor::Operand& w, bool accumulate) {
  return {.c = dx,
          .a = {.name = "dy", .matrix = dy, .scalings = kByRows},
          .b = {.name = "w", .matrix = w, .scalings = kWeightByColumns},
          .bias = {},
          .accumulate = accumulate,
          .m = dy.rows(),
          .n = w.cols(),
          .k = w.rows()};
}

Product wgrad_product(const tensor::Tensor& dw, const tensor::Operand& dy, const tensor::Operand& x, bool accumulate) {
  SHARD8_REQUIRE(dw.dtype == DType::fp32, "gemm_wgrad: dw is {}; allowed is fp32", name_of(dw.dtype));
  return {.c = dw,
          .a = {.name = "dy", .matrix = dy, .transposed = true, .scalings = kByColumns},
          .b = {.name = "x", .matrix = x, .scalings = kByColumns},
          .bias = {},
          .accumulate = accumulate,
          .m = dy.cols(),
          .n = x.cols(),
          .k = x.rows()};
}

void check_product(const char* kernel, const Product& p) {
  check_factor(kernel, p.a);
  check_factor(kernel, p.b);
  const DType a = p.a.matrix.data.dtype, b = p.b.matrix.data.dtype, c = p.c.dtype;
  const bool float8 = tensor::is_float8(a);
  SHARD8_REQUIRE(float8 ? tensor::is_float8(b) : a == b,
                 "{}: {} is {} and {} is {}; allowed are both fp32, both bf16, or both of e4m3 and e5m2", kernel,
                 p.a.name, name_of(a), p.b.name, name_of(b));
  SHARD8_REQUIRE(a != DType::e5m2 || b != DType::e5m2, "{}: {} and {} are both e5m2; allowed is at most one of them",
                 kernel, p.a.name, p.b.name);
  SHARD8_REQUIRE(c == DType::fp32 || (c == DType::bf16 && a != DType::fp32),
                 "{}: {} and {} of {} and {} cannot give {}; allowed is fp32{}", kernel, p.a.name, p.b.name, name_of(a),
                 name_of(b), name_of(c), a == DType::fp32 ? "" : " or bf16");
  SHARD8_REQUIRE(!p.accumulate || c == DType::fp32, "{}: cannot accumulate in {}; allowed is fp32", kernel, name_of(c));
  require_count(kernel, "output", p.c, p.m * p.n);
  require_count(kernel, p.a.name, p.a.matrix.data, p.m * p.k);
  require_count(kernel, p.b.name, p.b.matrix.data, p.k * p.n);
  if (p.bias.empty()) return;
  require_count(kernel, "bias", p.bias, p.n);
  SHARD8_REQUIRE(p.bias.dtype == (float8 ? c : a), "{}: bias is {}; allowed is {}, as {} is", kernel,
                 name_of(p.bias.dtype), name_of(float8 ? c : a), float8 ? "the output" : p.a.name);
}

}  // namespace shard8::kernels

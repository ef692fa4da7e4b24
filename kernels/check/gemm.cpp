// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/check/gemm.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "kernels/check/arguments.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/gemm.hpp"

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

using tensor::Operand;
using tensor::Tensor;

namespace {

constexpr const char* kFprop = "grouped_gemm_fprop";
constexpr const char* kDgrad = "grouped_gemm_dgrad";
constexpr const char* kWgrad = "grouped_gemm_wgrad";

/// Only FP8 operands of wgrad may lie transposed; what else is said of `transposed` is in kernels/gemm.hpp.
void require_as_it_is(const char* kernel, const char* name, const Operand& m) {
  SHARD8_REQUIRE(!m.transposed, "{}: {} ({}, {}) lies transposed; allowed are dy and x of wgrad", kernel, name,
                 m.rows(), m.cols());
}

/// Checks what is special about the weight of groups and returns the first one.
Operand first_weight(const char* kernel, const Operand& w, const RowGroups& groups) {
  require_as_it_is(kernel, "w", w);
  const std::int64_t outputs = check_groups(kernel, groups, w.rows()), count = groups.rows.count();
  if (w.scaling == Scaling::tensor) {
    SHARD8_REQUIRE(w.scale_inv.dtype == DType::fp32 && w.scale_inv.count() == count,
                   "{}: w of {} groups has scales {} of {}; needed is one fp32 for each group", kernel, count,
                   tensor::to_string(w.scale_inv.shape), name_of(w.scale_inv.dtype));
  }
  const std::int64_t block = block_rows(w.scaling);
  SHARD8_REQUIRE(outputs % block == 0,
                 "{}: w has {} rows for each group; with scaling {} they must be whole blocks of {}", kernel, outputs,
                 name_of(w.scaling), block);
  return weight_of_group(w, 0, outputs);
}

template <class Work>
void for_each_group(const KnownGroups& groups, const Work& work) {
  for (std::size_t g = 0; g < groups.rows.size(); ++g)
    work(static_cast<std::int64_t>(g), std::int64_t{groups.first[g]}, std::int64_t{groups.rows[g]});
}

}  // namespace

std::int64_t check_groups(const char* kernel, const RowGroups& groups, std::int64_t w_rows) {
  const std::int64_t count = groups.rows.count();
  for (const auto& [name, t] : {std::pair{"first", &groups.first}, std::pair{"rows", &groups.rows}}) {
    SHARD8_REQUIRE(t->dtype == DType::i32 && t->count() == count && count > 0,
                   "{}: {} of the groups is {} {}; it must be i32, one for each of at least one group", kernel, name,
                   tensor::name_of(t->dtype), tensor::to_string(t->shape));
  }
  SHARD8_REQUIRE(w_rows % count == 0, "{}: a weight of {} rows is not {} matrices, one for each group", kernel, w_rows,
                 count);
  return w_rows / count;
}

void check_grouped_fprop(const Tensor& y, const Operand& x, const Operand& w, const RowGroups& groups) {
  const Operand one = first_weight(kFprop, w, groups);
  require_as_it_is(kFprop, "x", x);
  check_product(kFprop, fprop_product(y, x, one, {}));
}

void check_grouped_dgrad(const Tensor& dx, const Operand& dy, const Operand& w, const RowGroups& groups) {
  const Operand one = first_weight(kDgrad, w, groups);
  require_as_it_is(kDgrad, "dy", dy);
  check_product(kDgrad, dgrad_product(dx, dy, one, false));
}

void check_grouped_wgrad(const Tensor& dw, const Operand& dy, const Operand& x, const RowGroups& groups,
                         bool accumulate) {
  const std::int64_t outputs = check_groups(kWgrad, groups, dw.rows());
  check_product(kWgrad, wgrad_product(dw.slice(0, outputs), dy, x, accumulate));
}

Operand weight_of_group(const Operand& w, std::int64_t group, std::int64_t outputs) {
  Operand one = w.slice(group * outputs, outputs);
  if (w.scaling == Scaling::tensor) one.scale_inv = w.scale_inv.slice(group, 1);
  return one;
}

std::int64_t rows_multiple(const Operand& m) {
  return tensor::is_float8(m.data.dtype) ? std::max(kGroupedRowsMultiple, block_rows(m.scaling)) : 1;
}

void check_known_groups(const char* kernel, const KnownGroups& groups, const char* name, const Operand& m) {
  const std::int64_t multiple = rows_multiple(m), rows = m.rows();
  std::int64_t end = 0;
  for (std::size_t g = 0; g < groups.rows.size(); ++g) {
    SHARD8_REQUIRE(groups.rows[g] >= 0 && (groups.rows[g] == 0 || groups.first[g] >= end),
                   "{}: group {} has {} rows from row {}; it must lie behind the groups before it, which end at row {}",
                   kernel, g, groups.rows[g], groups.first[g], end);
    if (groups.rows[g] == 0) continue;
    SHARD8_REQUIRE(groups.first[g] % multiple == 0,
                   "{}: group {} begins at row {}; with {} of {} and scaling {} groups begin at multiples of {}",
                   kernel, g, groups.first[g], name, name_of(m.data.dtype), name_of(m.scaling), multiple);
    end = std::int64_t{groups.first[g]} + groups.rows[g];
  }
  SHARD8_REQUIRE(end <= rows, "{}: groups end at row {} of {}", kernel, end, rows);
}

void multiply_each_fprop(const tensor::Exec& exec, const Tensor& y, const Operand& x, const Operand& w,
                         const KnownGroups& groups, const Workspace& workspace) {
  const std::int64_t outputs = w.rows() / static_cast<std::int64_t>(groups.rows.size());
  check_known_groups(kFprop, groups, "x", x);
  for_each_group(groups, [&](std::int64_t g, std::int64_t first, std::int64_t rows) {
    if (rows == 0) return;
    gemm_fprop(exec, y.slice(first, rows), x.slice(first, rows), weight_of_group(w, g, outputs), {}, workspace);
  });
}

void multiply_each_dgrad(const tensor::Exec& exec, const Tensor& dx, const Operand& dy, const Operand& w,
                         const KnownGroups& groups, const Workspace& workspace) {
  const std::int64_t outputs = w.rows() / static_cast<std::int64_t>(groups.rows.size());
  check_known_groups(kDgrad, groups, "dy", dy);
  for_each_group(groups, [&](std::int64_t g, std::int64_t first, std::int64_t rows) {
    if (rows == 0) return;
    gemm_dgrad(exec, dx.slice(first, rows), dy.slice(first, rows), weight_of_group(w, g, outputs), false, workspace);
  });
}

void multiply_each_wgrad(const tensor::Exec& exec, const Tensor& dw, const Operand& dy, const Operand& x,
                         const KnownGroups& groups, bool accumulate, const Workspace& workspace,
                         const RowsOf& rows_of) {
  const std::int64_t outputs = dw.rows() / static_cast<std::int64_t>(groups.rows.size());
  check_known_groups(kWgrad, groups, "dy", dy);
  check_known_groups(kWgrad, groups, "x", x);
  // Blocks along the tokens are read whole.
  const std::int64_t multiple = std::max(rows_multiple(dy), rows_multiple(x));
  for_each_group(groups, [&](std::int64_t g, std::int64_t first, std::int64_t known) {
    const Tensor one = dw.slice(g * outputs, outputs);
    const std::int64_t rows = std::min((known + multiple - 1) / multiple * multiple, x.rows() - first);
    if (known > 0) {
      const Operand dy_rows = rows_of(dy, first, rows), x_rows = rows_of(x, first, rows);
      gemm_wgrad(exec, one, dy_rows, x_rows, accumulate, workspace);
    } else if (!accumulate) {
      fill_zero(exec, one);
    }
  });
}

}  // namespace shard8::kernels

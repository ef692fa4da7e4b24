// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "kernels/gemm.hpp"
#include "tensor/operand.hpp"

namespace shard8::kernels {

/// One of the two matrices of a product, row-major, multiplied as stored or transposed.
struct Factor {
  const char* name = "";  ///< the argument's name in the operator's declaration, for messages
  tensor::Operand matrix;
  bool transposed = false;
  std::span<const tensor::Scaling> scalings;  ///< the scalings allowed for an FP8 matrix
};

/// A matrix product: c (m, n) [+]= op(a) (m, k) · op(b) (k, n) [+ bias (n) on every row]. op(x) is xᵀ if
/// Factor::transposed, else x.
struct Product {
  tensor::Tensor c;
  Factor a, b;
  tensor::Tensor bias;
  bool accumulate = false;
  std::int64_t m = 0, n = 0, k = 0;
};

/// The three products of kernels/gemm.hpp as Product. Only wgrad_product checks its arguments: it throws Error(failed)
/// unless dw is fp32.
Product fprop_product(const tensor::Tensor& y, const tensor::Operand& x, const tensor::Operand& w,
                      const tensor::Tensor& bias);
Product dgrad_product(const tensor::Tensor& dx, const tensor::Operand& dy, const tensor::Operand& w, bool accumulate);
Product wgrad_product(const tensor::Tensor& dw, const tensor::Operand& dy, const tensor::Operand& x, bool accumulate);

/// Throws Error(failed) unless dtypes, scalings and counts are as kernels/gemm.hpp states. The message names the
/// kernel, the matrix, what was given and what is allowed.
void check_product(const char* kernel, const Product& product);

/// Throws Error(failed) unless `first` and `rows` are (G) i32, G ≥ 1, and the weight or its gradient, `w_rows` rows, is
/// G matrices. Returns N, the rows of each.
std::int64_t check_groups(const char* kernel, const RowGroups& groups, std::int64_t w_rows);

/// Throw Error(failed) unless dtypes, scalings, layouts and counts are as kernels/gemm.hpp states, whatever the
/// sizes of the groups. The message names the kernel, the operand, what was given and what is allowed.
void check_grouped_fprop(const tensor::Tensor& y, const tensor::Operand& x, const tensor::Operand& w,
                         const RowGroups& groups);
void check_grouped_dgrad(const tensor::Tensor& dx, const tensor::Operand& dy, const tensor::Operand& w,
                         const RowGroups& groups);
void check_grouped_wgrad(const tensor::Tensor& dw, const tensor::Operand& dy, const tensor::Operand& x,
                         const RowGroups& groups, bool accumulate);

/// Weight g of w (G·N, K), with its own scale or its own blocks of scales.
tensor::Operand weight_of_group(const tensor::Operand& w, std::int64_t group, std::int64_t outputs);

/// The sizes of groups that the host knows.
struct KnownGroups {
  std::span<const std::int32_t> first, rows;
};
/// What first[g] of an operand is a multiple of: 1 for fp32 and bf16, kGroupedRowsMultiple or the rows of a block, if
/// these are more, for FP8.
std::int64_t rows_multiple(const tensor::Operand& m);
/// Throws Error(failed) unless the groups lie in order in the rows of m, the operand `name`, and begin at multiples of
/// rows_multiple().
void check_known_groups(const char* kernel, const KnownGroups& groups, const char* name, const tensor::Operand& m);

/// The products, group by group, by those of kernels/gemm.hpp. Arguments must have been checked but for the sizes of
/// groups, which are checked here.
void multiply_each_fprop(const tensor::Exec& exec, const tensor::Tensor& y, const tensor::Operand& x,
                         const tensor::Operand& w, const KnownGroups& groups, const Workspace& workspace);
void multiply_each_dgrad(const tensor::Exec& exec, const tensor::Tensor& dx, const tensor::Operand& dy,
                         const tensor::Operand& w, const KnownGroups& groups, const Workspace& workspace);

/// A function that returns `count` rows of dy or x, from row `first` on, in the form in which gemm_wgrad reads them.
using RowsOf = std::function<tensor::Operand(const tensor::Operand& m, std::int64_t first, std::int64_t count)>;
/// Without `accumulate` the dw of a group without rows is set to zeros. `rows_of` is called for dy's rows and then for
/// x's, rounded up to rows_multiple().
void multiply_each_wgrad(const tensor::Exec& exec, const tensor::Tensor& dw, const tensor::Operand& dy,
                         const tensor::Operand& x, const KnownGroups& groups, bool accumulate,
                         const Workspace& workspace, const RowsOf& rows_of = &tensor::Operand::slice);

}  // namespace shard8::kernels

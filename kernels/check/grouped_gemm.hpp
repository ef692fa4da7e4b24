// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kernels/grouped_gemm.hpp"

namespace shard8::kernels {

/// Throws Error(failed) unless `first` and `rows` are (G) i32, G ≥ 1, and the weight or its gradient, `w_rows` rows, is
/// G matrices. Returns N, the rows of each.
std::int64_t check_groups(const char* kernel, const RowGroups& groups, std::int64_t w_rows);

/// Weight g of w (G·N, K), with its own scale or its own blocks of scales.
tensor::Operand weight_of_group(const tensor::Operand& w, std::int64_t group, std::int64_t outputs);

/// The sizes of groups that the host knows.
struct KnownGroups {
  std::span<const std::int32_t> first, rows;
};
/// Throws Error(failed) unless the groups lie in order in `rows` rows.
void check_known_groups(const char* kernel, const KnownGroups& groups, std::int64_t rows);

/// The products, group by group, by those of kernels/gemm.hpp.
void multiply_each_fprop(const tensor::Exec& exec, const tensor::Tensor& y, const tensor::Operand& x,
                         const tensor::Operand& w, const KnownGroups& groups, const Workspace& workspace);
void multiply_each_dgrad(const tensor::Exec& exec, const tensor::Tensor& dx, const tensor::Operand& dy,
                         const tensor::Operand& w, const KnownGroups& groups, const Workspace& workspace);
/// Of a group without rows without `accumulate`, dw is set to zeros.
void multiply_each_wgrad(const tensor::Exec& exec, const tensor::Tensor& dw, const tensor::Operand& dy,
                         const tensor::Operand& x, const KnownGroups& groups, bool accumulate,
                         const Workspace& workspace);

}  // namespace shard8::kernels

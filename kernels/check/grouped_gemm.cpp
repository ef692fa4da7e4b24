// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/check/grouped_gemm.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/gemm.hpp"

namespace shard8::kernels {

using tensor::DType;
using tensor::Operand;
using tensor::Scaling;
using tensor::Tensor;

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

Operand weight_of_group(const Operand& w, std::int64_t group, std::int64_t outputs) {
  Operand one = w.slice(group * outputs, outputs);
  if (w.scaling == Scaling::tensor) one.scale_inv = w.scale_inv.slice(group, 1);
  return one;
}

void check_known_groups(const char* kernel, const KnownGroups& groups, std::int64_t rows) {
  std::int64_t end = 0;
  for (std::size_t g = 0; g < groups.rows.size(); ++g) {
    SHARD8_REQUIRE(groups.rows[g] >= 0 && (groups.rows[g] == 0 || groups.first[g] >= end),
                   "{}: group {} has {} rows from row {}; it must lie behind the groups before it, which end at row {}",
                   kernel, g, groups.rows[g], groups.first[g], end);
    if (groups.rows[g] > 0) end = std::int64_t{groups.first[g]} + groups.rows[g];
  }
  SHARD8_REQUIRE(end <= rows, "{}: groups end at row {} of {}", kernel, end, rows);
}

namespace {

template <class Work>
void for_each_group(const char* kernel, const KnownGroups& groups, std::int64_t rows, const Work& work) {
  check_known_groups(kernel, groups, rows);
  for (std::size_t g = 0; g < groups.rows.size(); ++g)
    work(static_cast<std::int64_t>(g), std::int64_t{groups.first[g]}, std::int64_t{groups.rows[g]});
}

}  // namespace

void multiply_each_fprop(const tensor::Exec& exec, const Tensor& y, const Operand& x, const Operand& w,
                         const KnownGroups& groups, const Workspace& workspace) {
  const std::int64_t outputs = w.rows() / static_cast<std::int64_t>(groups.rows.size());
  for_each_group("grouped_gemm_fprop", groups, y.rows(), [&](std::int64_t g, std::int64_t first, std::int64_t rows) {
    if (rows == 0) return;
    gemm_fprop(exec, y.slice(first, rows), x.slice(first, rows), weight_of_group(w, g, outputs), {}, workspace);
  });
}

void multiply_each_dgrad(const tensor::Exec& exec, const Tensor& dx, const Operand& dy, const Operand& w,
                         const KnownGroups& groups, const Workspace& workspace) {
  const std::int64_t outputs = w.rows() / static_cast<std::int64_t>(groups.rows.size());
  for_each_group("grouped_gemm_dgrad", groups, dx.rows(), [&](std::int64_t g, std::int64_t first, std::int64_t rows) {
    if (rows == 0) return;
    gemm_dgrad(exec, dx.slice(first, rows), dy.slice(first, rows), weight_of_group(w, g, outputs), false, workspace);
  });
}

void multiply_each_wgrad(const tensor::Exec& exec, const Tensor& dw, const Operand& dy, const Operand& x,
                         const KnownGroups& groups, bool accumulate, const Workspace& workspace) {
  const std::int64_t outputs = dw.rows() / static_cast<std::int64_t>(groups.rows.size());
  // Blocks along the tokens are read whole.
  const std::int64_t block = std::max(tensor::block_rows(dy.scaling), tensor::block_rows(x.scaling));
  for_each_group("grouped_gemm_wgrad", groups, x.rows(), [&](std::int64_t g, std::int64_t first, std::int64_t known) {
    const Tensor one = dw.slice(g * outputs, outputs);
    const std::int64_t rows = (known + block - 1) / block * block;
    if (rows > 0)
      gemm_wgrad(exec, one, dy.slice(first, rows), x.slice(first, rows), accumulate, workspace);
    else if (!accumulate)
      fill_zero(exec, one);
  });
}

}  // namespace shard8::kernels

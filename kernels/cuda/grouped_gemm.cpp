// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm.hpp"

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "kernels/cuda/cutlass_kernels.hpp"
#include "kernels/cuda/library_check.hpp"
#include "kernels/planned/device_memory.hpp"
#include "tensor/cuda/device.hpp"

namespace shard8::kernels::cuda {
namespace {

using tensor::DType;
using tensor::Operand;
using tensor::Scaling;
using tensor::Tensor;

constexpr std::int64_t kAlignment = 16;  // bytes: of addresses and pitches
constexpr int kComputeCapability = 9;    // the major number; the minor one must be 0
constexpr std::int64_t kBlock = 128;
constexpr std::int64_t kMostGroups = 65535;
/// Elements of a weight from which rows of tiles do not stay in the L2 cache. On an H200 28672x4096 is a tenth faster
/// so, and 4096x14336 is not.
constexpr std::int64_t kWideWeight = std::int64_t{1} << 26;
constexpr WorkspaceUser kUser{"grouped_gemm", "grouped_gemm_workspace_bytes"};

/// What kernels there are: of bf16, of FP8 with one scale a matrix, of FP8 with scales of blocks of 128.
enum class Kind { none, bf16, tensor, blocks };

Kind kind_of(DType dtype, Scaling scaling) {
  if (dtype == DType::bf16) return Kind::bf16;
  if (!tensor::is_float8(dtype)) return Kind::none;
  if (scaling == Scaling::tensor) return Kind::tensor;
  return scaling == Scaling::row_128 || scaling == Scaling::column_128 ? Kind::blocks : Kind::none;
}

/// The kind of kernel that multiplies `left` and `right`, of groups with weights of (outputs, inputs).
Kind kind_of(const Operand& left, const Operand& right, std::int64_t outputs, std::int64_t inputs,
             const RowGroups& groups, std::initializer_list<const Tensor*> matrices) {
  const Kind kind = kind_of(left.data.dtype, left.scaling);
  if (!has_grouped_kernel(left.data.dtype, left.scaling, inputs, outputs)) return Kind::none;
  // The right factor is the weight or the activations.
  const bool blocks = right.scaling == Scaling::tile_128 || right.scaling == Scaling::column_128;
  if (right.data.dtype == DType::e5m2 || blocks != (kind == Kind::blocks)) return Kind::none;
  if (kind == Kind::tensor && right.scaling != Scaling::tensor) return Kind::none;
  if (groups.rows.count() > kMostGroups) return Kind::none;
  const bool taken = std::all_of(matrices.begin(), matrices.end(), [](const Tensor* m) {
    return address(m->data) % kAlignment == 0 && m->rows() <= std::numeric_limits<std::int32_t>::max();
  });
  return taken ? kind : Kind::none;
}

/// Bytes of `count` elements.
std::int64_t size_in(DType dtype, std::int64_t count) {
  return static_cast<std::int64_t>(tensor::bytes_of(dtype, count));
}

/// The rows of each group of m (R, C).
GroupedMatrix rows_of(const Tensor& m) { return {m.data, 0, size_in(m.dtype, m.cols()), m.cols()}; }
/// Matrix g of m (G·rows, C).
GroupedMatrix matrix_of(const Tensor& m, std::int64_t rows) {
  return {m.data, size_in(m.dtype, rows * m.cols()), 0, m.cols()};
}

/// Scales of the rows of each group of m (R, C): (R, C/128) or (R/128, C).
GroupedMatrix scales_of(const Operand& m) {
  const std::int64_t line = m.cols() / block_cols(m.scaling);
  return {m.scale_inv.data, 0, size_in(DType::fp32, line), 0, static_cast<std::int32_t>(block_rows(m.scaling))};
}

/// A grouped product that is being prepared.
class Grouped {
 public:
  Grouped(cudaStream_t stream, const RowGroups& groups, const Workspace& workspace)
      : stream_(stream),
        spared_(workspace.spared),
        parts_(workspace.memory, kUser),
        maps_(parts_.take(kGroupedMapsBytes)),
        arrays_(parts_.take(static_cast<std::size_t>(groups.rows.count()) * kGroupedArrayBytes)) {
    layout_.first = groups.first.as<std::int32_t>();
    layout_.rows = groups.rows.as<std::int32_t>();
    layout_.groups = static_cast<int>(groups.rows.count());
  }

  /// One scale for each matrix. `each`: the right factor has one for each group.
  void scale(const Operand& left, const Operand& right, bool each) {
    layout_.left_scale_inv = left.scale_inv.as<float>();
    layout_.right_scale_inv = right.scale_inv.as<float>();
    layout_.right_scale_each = each;
  }
  /// Blocks of 128 of rows of groups on the left, tiles of weights on the right.
  void scale_rows(const Operand& left, const Operand& weights, std::int64_t outputs) {
    layout_.left_scales = scales_of(left);
    const std::int64_t tiles = outputs / kBlock * (weights.cols() / kBlock);
    layout_.right_scales = {weights.scale_inv.data, size_in(DType::fp32, tiles), 0, 0};
  }
  /// Blocks of 128 along the rows of groups.
  void scale_columns(const Operand& left, const Operand& right) {
    layout_.left_scales = scales_of(left);
    layout_.right_scales = scales_of(right);
  }

  /// `count` matrices m (rows, cols) of bytes, one behind the other, transposed to (cols, rows).
  const std::byte* transposed(const Tensor& m, std::int64_t rows, std::int64_t cols, std::int64_t count,
                              LastRows last = {}) {
    std::byte* const out = parts_.take(m.bytes());
    transpose_bytes(stream_, out, m.data, rows, cols, count, last);
    return out;
  }
  /// Columns of groups of m (R, C) stored as (C, R), or brought into this form.
  GroupedMatrix columns_of(const Operand& m) {
    const LastRows last{layout_.first + layout_.groups - 1, layout_.rows + layout_.groups - 1};
    const void* const data = m.transposed ? m.data.data : transposed(m.data, m.rows(), m.cols(), 1, last);
    return {data, 0, 1, m.rows()};
  }

  GroupedLayout& layout() { return layout_; }

  GroupedProblem prepare(bool accumulate) {
    GroupedProblem p = prepare_grouped(stream_, layout_, arrays_);
    p.accumulate = accumulate;
    p.workspace = maps_;
    p.workspace_bytes = kGroupedMapsBytes;
    p.multiprocessors = std::max(device_attribute(cudaDevAttrMultiProcessorCount) - spared_, 1);
    p.clusters = spared_ == 0;
    return p;
  }

 private:
  cudaStream_t stream_;
  int spared_;
  WorkspaceParts parts_;
  std::byte* maps_;
  std::byte* arrays_;
  GroupedLayout layout_;
};

/// An extent, which fits 32 bits.
std::int32_t extent(std::int64_t n) { return static_cast<std::int32_t>(n); }

}  // namespace

bool has_grouped_kernel(DType operands, Scaling scaling, std::int64_t inputs, std::int64_t outputs) {
  const Kind kind = kind_of(operands, scaling);
  if (kind == Kind::none) return false;
  const std::int64_t multiple = kind == Kind::blocks ? kBlock : kAlignment / size_in(operands, 1);
  if (inputs % multiple != 0 || outputs % multiple != 0 || inputs == 0 || outputs == 0) return false;
  return device_attribute(cudaDevAttrComputeCapabilityMajor) == kComputeCapability &&
         device_attribute(cudaDevAttrComputeCapabilityMinor) == 0;
}

bool grouped_gemm_fprop(cudaStream_t stream, const Tensor& y, const Operand& x, const Operand& w,
                        const RowGroups& groups, const Workspace& workspace) {
  const std::int64_t outputs = w.rows() / groups.rows.count(), inputs = w.cols();
  if (x.data.dtype == DType::e5m2 || y.dtype != DType::bf16) return false;
  const Kind kind = kind_of(x, w, outputs, inputs, groups, {&y, &x.data, &w.data});
  if (kind == Kind::none) return false;
  if (x.rows() == 0) return true;
  Grouped product(stream, groups, workspace);
  GroupedLayout& layout = product.layout();
  layout.cols = extent(outputs);
  layout.depth = extent(inputs);
  layout.left = rows_of(x.data);
  layout.right = matrix_of(w.data, outputs);
  layout.out = rows_of(y);
  if (kind == Kind::bf16) return run_grouped_bf16_fprop(stream, product.prepare(false));
  if (kind == Kind::blocks) {
    product.scale_rows(x, w, outputs);
    return run_grouped_blocks_fprop(stream, product.prepare(false));
  }
  product.scale(x, w, true);
  return run_grouped_fp8_fprop(stream, product.prepare(false));
}

bool grouped_gemm_dgrad(cudaStream_t stream, const Tensor& dx, const Operand& dy, const Operand& w,
                        const RowGroups& groups, const Workspace& workspace) {
  const std::int64_t count = groups.rows.count(), outputs = w.rows() / count, inputs = w.cols();
  if (dx.dtype != DType::bf16) return false;
  const Kind kind = kind_of(dy, w, outputs, inputs, groups, {&dx, &dy.data, &w.data});
  if (kind == Kind::none) return false;
  if (dy.rows() == 0) return true;
  const bool e5m2 = dy.data.dtype == DType::e5m2;
  Grouped product(stream, groups, workspace);
  GroupedLayout& layout = product.layout();
  layout.cols = extent(inputs);
  layout.depth = extent(outputs);
  layout.left = rows_of(dy.data);
  layout.out = rows_of(dx);
  if (kind == Kind::bf16) {
    layout.right = matrix_of(w.data, outputs);
    return run_grouped_bf16_dgrad(stream, product.prepare(false));
  }
  layout.right = {product.transposed(w.data, outputs, inputs, count), outputs * inputs, 0, outputs};
  if (kind == Kind::blocks) {
    product.scale_rows(dy, w, outputs);
    return run_grouped_blocks_dgrad(stream, product.prepare(false), e5m2);
  }
  product.scale(dy, w, true);
  return run_grouped_fp8_dgrad(stream, product.prepare(false), e5m2);
}

bool grouped_gemm_wgrad(cudaStream_t stream, const Tensor& dw, const Operand& dy, const Operand& x,
                        const RowGroups& groups, bool accumulate, const Workspace& workspace) {
  const std::int64_t count = groups.rows.count(), outputs = dw.rows() / count, inputs = dw.cols();
  const Kind kind = kind_of(dy, x, outputs, inputs, groups, {&dw, &dy.data, &x.data});
  if (kind == Kind::none || (kind != Kind::bf16 && x.rows() % kGroupedRowsMultiple != 0)) return false;
  const bool e5m2 = dy.data.dtype == DType::e5m2;
  const std::int64_t bytes = size_in(dw.dtype, outputs * inputs);
  if (!accumulate) zero_empty_groups(stream, dw.data, bytes, groups.rows.as<std::int32_t>(), static_cast<int>(count));
  if (x.rows() == 0) return true;
  Grouped product(stream, groups, workspace);
  GroupedLayout& layout = product.layout();
  layout.sums_rows = true;
  layout.lines = extent(outputs);
  layout.cols = extent(inputs);
  layout.left = kind == Kind::bf16 ? rows_of(dy.data) : product.columns_of(dy);
  layout.right = kind == Kind::bf16 ? rows_of(x.data) : product.columns_of(x);
  layout.out = matrix_of(dw, outputs);
  if (kind == Kind::bf16) {
    GroupedProblem problem = product.prepare(accumulate);
    if (outputs * inputs >= kWideWeight) problem.swizzle = 4;
    return run_grouped_bf16_wgrad(stream, problem);
  }
  if (kind == Kind::blocks) {
    product.scale_columns(dy, x);
    return run_grouped_blocks_wgrad(stream, product.prepare(accumulate), e5m2);
  }
  product.scale(dy, x, false);
  return run_grouped_fp8_wgrad(stream, product.prepare(accumulate), e5m2);
}

}  // namespace shard8::kernels::cuda

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/grouped_gemm.hpp"

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "kernels/cuda/gemm_operands.hpp"
#include "kernels/cuda/grouped_arguments.hpp"
#include "kernels/cuda/grouped_kernels.hpp"
#include "kernels/cuda/workspace_parts.hpp"
#include "kernels/planned/device_memory.hpp"
#include "tensor/cuda/check.hpp"

namespace shard8::kernels::cuda {
namespace {

using tensor::DType;
using tensor::Operand;
using tensor::Scaling;
using tensor::Tensor;

constexpr std::int64_t kAlignment = 16;  // bytes: of addresses and pitches
constexpr int kComputeCapability = 9;    // the major number; the minor one must be 0
constexpr std::int64_t kMostGroups = 65535;
constexpr WorkspaceUser kUser{"grouped_gemm", "grouped_gemm_workspace_bytes"};

bool is_float8(DType dtype) { return dtype == DType::e4m3 || dtype == DType::e5m2; }

int attribute(cudaDeviceAttr which) {
  int device = 0, value = 0;
  SHARD8_CUDA_CHECK(cudaGetDevice(&device));
  SHARD8_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

/// Whether a kernel takes the product of `left` and `right`, of groups with weights of (outputs, inputs).
bool takes(const Operand& left, const Operand& right, std::int64_t outputs, std::int64_t inputs,
           const RowGroups& groups, std::initializer_list<const Tensor*> matrices) {
  if (!has_grouped_kernel(left.data.dtype, left.scaling, inputs, outputs)) return false;
  // The right factor is the weight or the activations.
  if (right.data.dtype == DType::e5m2 || right.scaling != left.scaling || groups.rows.count() > kMostGroups)
    return false;
  return std::all_of(matrices.begin(), matrices.end(), [](const Tensor* m) {
    return address(m->data) % kAlignment == 0 && m->rows() <= std::numeric_limits<std::int32_t>::max();
  });
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

/// A grouped product that is being prepared.
class Grouped {
 public:
  Grouped(cudaStream_t stream, const RowGroups& groups, const Tensor& memory)
      : stream_(stream),
        parts_(memory, kUser),
        maps_(parts_.take(kGroupedMapsBytes)),
        arrays_(parts_.take(static_cast<std::size_t>(groups.rows.count()) * kGroupedArrayBytes)) {
    layout_.first = groups.first.as<std::int32_t>();
    layout_.rows = groups.rows.as<std::int32_t>();
    layout_.groups = static_cast<int>(groups.rows.count());
  }

  /// The scales of FP8 operands. `each`: the right one has a scale for each group.
  void scale(const Operand& left, const Operand& right, bool each) {
    if (left.scaling != Scaling::tensor) return;
    layout_.left_scale_inv = left.scale_inv.as<float>();
    layout_.right_scale_inv = right.scale_inv.as<float>();
    layout_.right_scale_each = each;
  }

  /// `count` matrices m (rows, cols) of bytes, one behind the other, transposed to (cols, rows).
  const std::byte* transposed(const Tensor& m, std::int64_t rows, std::int64_t cols, std::int64_t count) {
    std::byte* const out = parts_.take(m.bytes());
    transpose_bytes(stream_, out, m.data, rows, cols, count);
    return out;
  }
  /// Columns of groups of m (R, C) stored as (C, R), or brought into this form.
  GroupedMatrix columns_of(const Operand& m) {
    const void* const data = m.transposed ? m.data.data : transposed(m.data, m.rows(), m.cols(), 1);
    return {data, 0, 1, m.rows()};
  }

  GroupedLayout& layout() { return layout_; }

  GroupedProblem prepare(bool accumulate) {
    GroupedProblem p = prepare_grouped(stream_, layout_, arrays_);
    p.accumulate = accumulate;
    p.workspace = maps_;
    p.workspace_bytes = kGroupedMapsBytes;
    p.multiprocessors = attribute(cudaDevAttrMultiProcessorCount);
    return p;
  }

 private:
  cudaStream_t stream_;
  WorkspaceParts parts_;
  std::byte* maps_;
  std::byte* arrays_;
  GroupedLayout layout_;
};

/// Of matrices (rows, cols) of 32-bit extents.
std::int32_t extent(std::int64_t n) { return static_cast<std::int32_t>(n); }

}  // namespace

bool has_grouped_kernel(DType operands, Scaling scaling, std::int64_t inputs, std::int64_t outputs) {
  const bool float8 = is_float8(operands) && scaling == Scaling::tensor;
  if (operands != DType::bf16 && !float8) return false;
  const std::int64_t multiple = kAlignment / size_in(operands, 1);
  if (inputs % multiple != 0 || outputs % multiple != 0 || inputs == 0 || outputs == 0) return false;
  return attribute(cudaDevAttrComputeCapabilityMajor) == kComputeCapability &&
         attribute(cudaDevAttrComputeCapabilityMinor) == 0;
}

bool grouped_gemm_fprop(cudaStream_t stream, const Tensor& y, const Operand& x, const Operand& w,
                        const RowGroups& groups, const Tensor& memory) {
  const std::int64_t outputs = w.rows() / groups.rows.count(), inputs = w.cols();
  if (x.data.dtype == DType::e5m2 || y.dtype != DType::bf16) return false;
  if (!takes(x, w, outputs, inputs, groups, {&y, &x.data, &w.data})) return false;
  if (x.rows() == 0) return true;
  Grouped product(stream, groups, memory);
  GroupedLayout& layout = product.layout();
  layout.cols = extent(outputs);
  layout.depth = extent(inputs);
  layout.left = rows_of(x.data);
  layout.right = matrix_of(w.data, outputs);
  layout.out = rows_of(y);
  product.scale(x, w, true);
  const GroupedProblem p = product.prepare(false);
  return is_float8(x.data.dtype) ? run_grouped_fp8_fprop(stream, p) : run_grouped_bf16_fprop(stream, p);
}

bool grouped_gemm_dgrad(cudaStream_t stream, const Tensor& dx, const Operand& dy, const Operand& w,
                        const RowGroups& groups, const Tensor& memory) {
  const std::int64_t count = groups.rows.count(), outputs = w.rows() / count, inputs = w.cols();
  if (dx.dtype != DType::bf16 || !takes(dy, w, outputs, inputs, groups, {&dx, &dy.data, &w.data})) return false;
  if (dy.rows() == 0) return true;
  Grouped product(stream, groups, memory);
  GroupedLayout& layout = product.layout();
  layout.cols = extent(inputs);
  layout.depth = extent(outputs);
  layout.left = rows_of(dy.data);
  layout.out = rows_of(dx);
  if (!is_float8(dy.data.dtype)) {
    layout.right = matrix_of(w.data, outputs);
    return run_grouped_bf16_dgrad(stream, product.prepare(false));
  }
  layout.right = {product.transposed(w.data, outputs, inputs, count), outputs * inputs, 0, outputs};
  product.scale(dy, w, true);
  return run_grouped_fp8_dgrad(stream, product.prepare(false), dy.data.dtype == DType::e5m2);
}

bool grouped_gemm_wgrad(cudaStream_t stream, const Tensor& dw, const Operand& dy, const Operand& x,
                        const RowGroups& groups, bool accumulate, const Tensor& memory) {
  const std::int64_t count = groups.rows.count(), outputs = dw.rows() / count, inputs = dw.cols();
  const bool float8 = is_float8(dy.data.dtype);
  if (!takes(dy, x, outputs, inputs, groups, {&dw, &dy.data, &x.data})) return false;
  if (float8 && x.rows() % kGroupedRowsMultiple != 0) return false;
  const std::int64_t bytes = size_in(dw.dtype, outputs * inputs);
  if (!accumulate) zero_empty_groups(stream, dw.data, bytes, groups.rows.as<std::int32_t>(), static_cast<int>(count));
  if (x.rows() == 0) return true;
  Grouped product(stream, groups, memory);
  GroupedLayout& layout = product.layout();
  layout.sums_rows = true;
  layout.lines = extent(outputs);
  layout.cols = extent(inputs);
  layout.left = float8 ? product.columns_of(dy) : rows_of(dy.data);
  layout.right = float8 ? product.columns_of(x) : rows_of(x.data);
  layout.out = matrix_of(dw, outputs);
  product.scale(dy, x, false);
  const GroupedProblem p = product.prepare(accumulate);
  return float8 ? run_grouped_fp8_wgrad(stream, p, dy.data.dtype == DType::e5m2) : run_grouped_bf16_wgrad(stream, p);
}

}  // namespace shard8::kernels::cuda

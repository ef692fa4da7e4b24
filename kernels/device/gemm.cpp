// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm.hpp"

#include <vector>

#include "kernels/check/gemm.hpp"
#include "kernels/cuda/gemm.hpp"
#include "kernels/device/parts.hpp"
#include "kernels/planned/device_memory.hpp"
#include "tensor/cuda/device.hpp"
#include "tensor/transfer.hpp"

namespace shard8::kernels {

using tensor::cuda::stream_of;

void gemm_fprop(const tensor::Exec& exec, const tensor::Tensor& y, const tensor::Operand& x, const tensor::Operand& w,
                const tensor::Tensor& bias, const Workspace& workspace, const tensor::Tensor& residual) {
  check_product("gemm_fprop", fprop_product(y, x, w, bias));
  cuda::gemm_fprop(parts_of(workspace, "gemm_fprop").gemm, stream_of(exec), y, x, w, bias, workspace.memory, residual);
}

void gemm_dgrad(const tensor::Exec& exec, const tensor::Tensor& dx, const tensor::Operand& dy, const tensor::Operand& w,
                bool accumulate, const Workspace& workspace) {
  check_product("gemm_dgrad", dgrad_product(dx, dy, w, accumulate));
  cuda::gemm_dgrad(parts_of(workspace, "gemm_dgrad").gemm, stream_of(exec), dx, dy, w, accumulate, workspace.memory);
}

void gemm_wgrad(const tensor::Exec& exec, const tensor::Tensor& dw, const tensor::Operand& dy, const tensor::Operand& x,
                bool accumulate, const Workspace& workspace) {
  check_product("gemm_wgrad", wgrad_product(dw, dy, x, accumulate));
  cuda::gemm_wgrad(parts_of(workspace, "gemm_wgrad").gemm, stream_of(exec), dw, dy, x, accumulate, workspace.memory);
}

std::size_t gemm_workspace_bytes(tensor::DType operands, std::int64_t tokens, std::int64_t inputs, std::int64_t outputs,
                                 tensor::Scaling scaling, bool transposed) {
  return cuda::gemm_memory_bytes(operands, tokens, inputs, outputs, scaling, transposed);
}

using tensor::Operand;
using tensor::Tensor;

namespace {

/// Copies the first rows and the sizes of groups from the device to the host. The constructor waits for the device.
class ReadGroups {
 public:
  ReadGroups(const tensor::Exec& exec, const RowGroups& groups)
      : first_(tensor::to_host<std::int32_t>(exec, groups.first)),
        rows_(tensor::to_host<std::int32_t>(exec, groups.rows)) {}
  operator KnownGroups() const { return {first_, rows_}; }  // NOLINT: passed as sizes that are known

 private:
  std::vector<std::int32_t> first_, rows_;
};

/// Rows first … first + count − 1 of m (R, C), which is stored as (C, R): stored as (C, count) in `memory`.
Operand copied_rows(cudaStream_t stream, const Operand& m, std::int64_t first, std::int64_t count, std::byte* memory) {
  const auto pitch = static_cast<std::size_t>(m.rows()), width = static_cast<std::size_t>(count);
  SHARD8_CUDA_CHECK(cudaMemcpy2DAsync(memory, width, m.data.data + first, pitch, width,
                                      static_cast<std::size_t>(m.cols()), cudaMemcpyDeviceToDevice, stream));
  // The scales lie as those of (R, C).
  Operand scales = m;
  scales.transposed = false;
  scales.data.shape = {m.rows(), m.cols()};
  Operand rows = scales.slice(first, count);
  rows.data = {memory, {m.cols(), count}, m.data.dtype};
  rows.transposed = true;
  return rows;
}

}  // namespace

void grouped_gemm_fprop(const tensor::Exec& exec, const Tensor& y, const Operand& x, const Operand& w,
                        const RowGroups& groups, const Workspace& workspace) {
  check_grouped_fprop(y, x, w, groups);
  if (cuda::grouped_gemm_fprop(stream_of(exec), y, x, w, groups, workspace)) return;
  const WithoutTuning untimed(workspace.libraries);
  multiply_each_fprop(exec, y, x, w, ReadGroups(exec, groups), workspace);
}

void grouped_gemm_dgrad(const tensor::Exec& exec, const Tensor& dx, const Operand& dy, const Operand& w,
                        const RowGroups& groups, const Workspace& workspace) {
  check_grouped_dgrad(dx, dy, w, groups);
  if (cuda::grouped_gemm_dgrad(stream_of(exec), dx, dy, w, groups, workspace)) return;
  const WithoutTuning untimed(workspace.libraries);
  multiply_each_dgrad(exec, dx, dy, w, ReadGroups(exec, groups), workspace);
}

void grouped_gemm_wgrad(const tensor::Exec& exec, const Tensor& dw, const Operand& dy, const Operand& x,
                        const RowGroups& groups, bool accumulate, const Workspace& workspace) {
  check_grouped_wgrad(dw, dy, x, groups, accumulate);
  const cudaStream_t stream = stream_of(exec);
  if (cuda::grouped_gemm_wgrad(stream, dw, dy, x, groups, accumulate, workspace)) return;
  cuda::WorkspaceParts parts(workspace.memory, {"grouped_gemm_wgrad", "grouped_gemm_workspace_bytes"});
  std::byte* const dy_copy = dy.transposed ? parts.take(dy.data.bytes()) : nullptr;
  std::byte* const x_copy = x.transposed ? parts.take(x.data.bytes()) : nullptr;
  const auto rows_of = [&](const Operand& m, std::int64_t first, std::int64_t count) {
    return m.transposed ? copied_rows(stream, m, first, count, &m == &dy ? dy_copy : x_copy) : m.slice(first, count);
  };
  const WithoutTuning untimed(workspace.libraries);
  multiply_each_wgrad(exec, dw, dy, x, ReadGroups(exec, groups), accumulate, {parts.rest(), workspace.libraries},
                      rows_of);
}

std::size_t grouped_gemm_workspace_bytes(tensor::DType operands, std::int64_t groups, std::int64_t rows,
                                         std::int64_t inputs, std::int64_t outputs, tensor::Scaling scaling,
                                         bool transposed) {
  return cuda::grouped_gemm_memory_bytes(operands, groups, rows, inputs, outputs, scaling, transposed);
}

bool grouped_gemm_waits(tensor::DType operands, tensor::Scaling scaling, tensor::DType out, std::int64_t inputs,
                        std::int64_t outputs) {
  return out != tensor::DType::bf16 || !cuda::has_grouped_kernel(operands, scaling, inputs, outputs);
}

}  // namespace shard8::kernels

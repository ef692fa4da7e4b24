// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "base/error.hpp"
#include "kernels/cuda/lt_gemm.hpp"
#include "kernels/gemm.hpp"
#include "tensor/dtype.hpp"
#include "tensor/operand.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels::cuda {

/// The products of kernels/gemm.hpp on a device. Callers must have checked the arguments by check_product(); all
/// tensors are in the device's memory. Operands are converted in `memory` to what cuBLASLt reads on compute capability
/// 9.0:
///
///   fp32, bf16   read as stored
///   FP8          the summed dimension must be contiguous: other operands are transposed, unless they are stored
///                transposed already (Operand::transposed); block scales are converted to LtScaling's layouts
///   mxfp8        decoded to bf16
///
/// FP8 products with one scale for the whole tensor use fast accumulation in fprop: its error is small compared with
/// the error of the cast. In dgrad and wgrad partial sums are moved to fp32. Both choices are TransformerEngine's
/// defaults. `memory` must have gemm_memory_bytes(); too little is an Error(failed).

/// y (T, N) = x (T, K) · w (N, K)ᵀ [+ bias (N)] [+ residual (T, N), of y's dtype; K must not be 0]. FP8 operands with a
/// residual and an fp32 bias are an Error(failed).
void gemm_fprop(LtGemm& gemm, cudaStream_t stream, const tensor::Tensor& y, const tensor::Operand& x,
                const tensor::Operand& w, const tensor::Tensor& bias, const tensor::Tensor& memory,
                const tensor::Tensor& residual = {});
/// dx (T, K) [+]= dy (T, N) · w (N, K)
void gemm_dgrad(LtGemm& gemm, cudaStream_t stream, const tensor::Tensor& dx, const tensor::Operand& dy,
                const tensor::Operand& w, bool accumulate, const tensor::Tensor& memory);
/// dw (N, K) [+]= dy (T, N)ᵀ · x (T, K)
void gemm_wgrad(LtGemm& gemm, cudaStream_t stream, const tensor::Tensor& dw, const tensor::Operand& dy,
                const tensor::Operand& x, bool accumulate, const tensor::Tensor& memory);

}  // namespace shard8::kernels::cuda

/// The grouped products of kernels/gemm.hpp by CUTLASS's kernels, which read the sizes of groups on the device. Callers
/// must have checked the arguments; all tensors are in the device's memory. FP8 operands are read with the summed
/// dimension contiguous, as by gemm_fprop() above, so the weights of dgrad, and operands of wgrad that do not lie
/// transposed, are transposed in the workspace, all groups at once. fprop of FP8 operands uses fast accumulation.
namespace shard8::kernels::cuda {

/// Whether a kernel multiplies operands of this dtype and rowwise scaling to bf16 (wgrad: fp32), with weights of
/// (outputs, inputs), on the current device. Never in a build without CUTLASS.
bool has_grouped_kernel(tensor::DType operands, tensor::Scaling scaling, std::int64_t inputs, std::int64_t outputs);

// Each function enqueues the product on `stream` and returns true; if no kernel takes it, nothing is enqueued that
// changes the result, and false is returned. `workspace` must have grouped_gemm_memory_bytes(); too little is an
// Error(failed).

[[nodiscard]] bool grouped_gemm_fprop(cudaStream_t stream, const tensor::Tensor& y, const tensor::Operand& x,
                                      const tensor::Operand& w, const RowGroups& groups, const Workspace& workspace);
[[nodiscard]] bool grouped_gemm_dgrad(cudaStream_t stream, const tensor::Tensor& dx, const tensor::Operand& dy,
                                      const tensor::Operand& w, const RowGroups& groups, const Workspace& workspace);
[[nodiscard]] bool grouped_gemm_wgrad(cudaStream_t stream, const tensor::Tensor& dw, const tensor::Operand& dy,
                                      const tensor::Operand& x, const RowGroups& groups, bool accumulate,
                                      const Workspace& workspace);

}  // namespace shard8::kernels::cuda

namespace shard8::kernels::cuda {

inline std::uintptr_t address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

/// Who takes parts, for messages: the kernel, and the function that says how much it needs.
struct WorkspaceUser {
  const char* kernel = "";
  const char* bytes = "";
};

/// Hands out parts of a workspace, one after the other, each aligned to tensor::kAlignment.
class WorkspaceParts {
 public:
  WorkspaceParts(const tensor::Tensor& memory, const WorkspaceUser& user)
      : memory_(memory), user_(user), next_(memory.data) {
    next_ += (tensor::kAlignment - address(next_) % tensor::kAlignment) % tensor::kAlignment;
  }

  /// Throws Error(failed) if the workspace has too few bytes.
  std::byte* take(std::size_t bytes) {
    std::byte* const part = next_;
    next_ += tensor::aligned(bytes);
    if (memory_.data == nullptr || next_ > memory_.data + memory_.bytes()) {
      base::fail(base::ExitCode::failed, "{}: workspace of {} bytes; needed are at least {} ({})", user_.kernel,
                 memory_.bytes(), next_ - memory_.data, user_.bytes);
    }
    return part;
  }

  /// What has not been handed out.
  tensor::Tensor rest() const { return {next_, {memory_.data + memory_.bytes() - next_}, tensor::DType::u8}; }

 private:
  tensor::Tensor memory_;
  WorkspaceUser user_;
  std::byte* next_;
};

}  // namespace shard8::kernels::cuda

/// The kernels that prepare operands for cuBLASLt.
namespace shard8::kernels::cuda {

/// Every row of out (rows, cols) = bias (cols). Row and bias are fp32 or bf16; the bias is converted if the dtypes
/// differ. `addend` (rows, cols), in the dtype of out, which it may be, is added; null: nothing is.
void broadcast_bias(cudaStream_t stream, void* out, tensor::DType out_dtype, const void* bias, tensor::DType bias_dtype,
                    std::int64_t rows, std::int64_t cols, const void* addend = nullptr);

/// Which 32 elements share an e8m0 scale (OCP MX): neighbours in a row, or neighbours in a column.
enum class MxBlocks { row, column };

/// out (R, C) bf16 = in (R, C), e4m3 or e5m2, times the inverse scale of its block, rounded once. scale_inv is (R,
/// C/32) or (R/32, C). Extents must be whole blocks and C a multiple of 8; out must be aligned to 16 bytes, in and
/// scale_inv to 8.
void dequantize_mx(cudaStream_t stream, void* out, const void* in, const void* scale_inv, tensor::DType in_dtype,
                   MxBlocks blocks, std::int64_t rows, std::int64_t cols);

/// Bytes that transpose_bytes reads and writes at once.
inline constexpr std::int64_t kTransposeVector = 16;

/// The last rows of a matrix that are in use, in device memory: *count rows from row *first on. Null: all rows are.
struct LastRows {
  const std::int32_t *first = nullptr, *count = nullptr;
};

/// out (C, R) = in (R, C)ᵀ, one byte an element, for `count` matrices, one behind the other. R, C and both addresses
/// must be multiples of kTransposeVector; at most 65535 matrices. Rows behind the `last` ones are transposed up to the
/// next multiple of 128; what `out` holds of the others is undefined.
void transpose_bytes(cudaStream_t stream, void* out, const void* in, std::int64_t rows, std::int64_t cols,
                     std::int64_t count = 1, LastRows last = {});

/// out (R, pitch) = in (R, C), and zeros from column C on. The matrices are block scales.
void pad_scales(cudaStream_t stream, float* out, const float* in, std::int64_t rows, std::int64_t cols,
                std::int64_t pitch);

/// out (C, pitch) = in (R, C)ᵀ, and zeros from column R on. The matrices are block scales.
void transpose_scales(cudaStream_t stream, float* out, const float* in, std::int64_t rows, std::int64_t cols,
                      std::int64_t pitch);

}  // namespace shard8::kernels::cuda

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "kernels/planned/device_memory.hpp"
#include "tensor/cuda/device.hpp"

namespace shard8::kernels::cuda {
namespace {

using tensor::DType;
using tensor::Operand;
using tensor::Scaling;
using tensor::Tensor;

constexpr std::int64_t kScaleAlignment = 16;  // the alignment that cuBLASLt needs for block scales

std::int64_t padded(std::int64_t blocks) { return (blocks + 3) / 4 * 4; }

bool is_mx(Scaling scaling) { return scaling == Scaling::row_32 || scaling == Scaling::column_32; }

constexpr WorkspaceUser kUser{"gemm", "gemm_workspace_bytes"};

/// A matrix in the form in which cuBLASLt reads it.
struct Prepared {
  LtFactor factor;
  const void* data = nullptr;
  const float* scale_inv = nullptr;
};

/// The dimension of a matrix that the product sums over.
enum class Depth { columns, rows };

const float* block_scales(cudaStream_t stream, const Operand& m, Depth depth, WorkspaceParts& memory) {
  const auto* const scales = reinterpret_cast<const float*>(m.scale_inv.data);
  const std::int64_t rows = m.rows() / block_rows(m.scaling), cols = m.cols() / block_cols(m.scaling);
  const bool tile = m.scaling == Scaling::tile_128;
  // In vec_128 the depth is the slow dimension of the scales, in tile_128 the fast one.
  const bool transpose = tile == (depth == Depth::rows);
  const std::int64_t lines = transpose ? cols : rows, length = transpose ? rows : cols;
  const std::int64_t pitch = tile ? padded(length) : length;
  if (!transpose && pitch == length && address(scales) % kScaleAlignment == 0) return scales;
  auto* const out = reinterpret_cast<float*>(memory.take(static_cast<std::size_t>(lines * pitch) * sizeof(float)));
  if (transpose) {
    transpose_scales(stream, out, scales, rows, cols, pitch);
  } else {
    pad_scales(stream, out, scales, rows, cols, pitch);
  }
  return out;
}

Prepared prepared_float8(cudaStream_t stream, const Operand& m, Depth depth, WorkspaceParts& memory) {
  Prepared p{{.dtype = m.data.dtype, .scaling = LtScaling::tensor}, m.data.data, nullptr};
  const Tensor& lying = m.data;
  if (m.transposed != (depth == Depth::rows)) {
    SHARD8_REQUIRE(lying.rows() % kTransposeVector == 0 && lying.cols() % kTransposeVector == 0 &&
                       address(lying.data) % kTransposeVector == 0,
                   "gemm: {} of {} at {} cannot be transposed; extents and address must be multiples of {}",
                   to_string(lying.shape), name_of(lying.dtype), static_cast<const void*>(lying.data),
                   kTransposeVector);
    std::byte* const out = memory.take(lying.bytes());
    transpose_bytes(stream, out, lying.data, lying.rows(), lying.cols());
    p.data = out;
  }
  if (m.scaling == Scaling::tensor) {
    p.scale_inv = m.scale_inv.as<float>();
  } else {
    p.factor.scaling = m.scaling == Scaling::tile_128 ? LtScaling::tile_128 : LtScaling::vec_128;
    p.scale_inv = block_scales(stream, m, depth, memory);
  }
  return p;
}

Prepared prepared_mx(cudaStream_t stream, const Operand& m, WorkspaceParts& memory) {
  SHARD8_REQUIRE(!m.transposed, "gemm: an operand with scaling {} is transposed; it is decoded as it lies",
                 name_of(m.scaling));
  std::byte* const decoded = memory.take(2 * m.data.bytes());
  const MxBlocks blocks = m.scaling == Scaling::row_32 ? MxBlocks::row : MxBlocks::column;
  dequantize_mx(stream, decoded, m.data.data, m.scale_inv.data, m.data.dtype, blocks, m.rows(), m.cols());
  return {{.dtype = DType::bf16}, decoded, nullptr};
}

Prepared prepared(cudaStream_t stream, const Operand& m, Depth depth, WorkspaceParts& memory) {
  if (is_mx(m.scaling)) return prepared_mx(stream, m, memory);
  if (tensor::is_float8(m.data.dtype)) return prepared_float8(stream, m, depth, memory);
  SHARD8_REQUIRE(!m.transposed, "gemm: an operand of {} is transposed; only e4m3 and e5m2 are read so",
                 name_of(m.data.dtype));
  return {{.dtype = m.data.dtype}, m.data.data, nullptr};
}

/// A power of two that divides all addresses. Vector loads depend on it. Few different values are used, because each
/// value has an algorithm of its own.
std::int32_t alignment_of(const LtGemmArgs& args) {
  const std::uintptr_t all = address(args.out) | address(args.left) | address(args.right) | address(args.addend);
  for (const std::int32_t alignment : {256, 16, 8, 4}) {
    if (all % static_cast<std::uintptr_t>(alignment) == 0) return alignment;
  }
  return 2;
}

/// Every row of out (T, N) = bias (N), plus that of the addend, as `out`, unless it is null.
void fill_rows(cudaStream_t stream, const Tensor& out, const Tensor& bias, const void* addend = nullptr) {
  const std::int64_t cols = bias.count();
  broadcast_bias(stream, out.data, out.dtype, bias.data, bias.dtype, out.count() / cols, cols, addend);
}

class Product {
 public:
  Product(LtGemm& gemm, cudaStream_t stream, const Tensor& memory)
      : gemm_(gemm), stream_(stream), memory_(memory, kUser), workspace_(memory_.take(kLtWorkspaceBytes)) {}

  Prepared prepare(const Operand& m, Depth depth) { return prepared(stream_, m, depth, memory_); }

  /// Adds the bias. cuBLASLt adds it itself if the bias can be given in the dtype that cuBLASLt needs. Otherwise the
  /// bias, with the addend if add() was called before, is written to `out` before the product, which then accumulates.
  void add_bias(LtGemmKey& key, const Tensor& out, const Tensor& bias) {
    const DType wanted = bias_dtype(key);
    if (wanted == DType::bf16 && bias.dtype == DType::fp32) {
      fill_rows(stream_, out, bias, addend_);  // as bf16 the bias would lose digits
      key.accumulate = true;
      key.addend = false;
      addend_ = nullptr;
      return;
    }
    key.bias = true;
    bias_ = bias.data;
    if (wanted == bias.dtype && address(bias_) % 16 == 0) return;
    Tensor copy{nullptr, {bias.count()}, wanted};
    copy.data = memory_.take(copy.bytes());
    fill_rows(stream_, copy, bias);
    bias_ = copy.data;
  }

  void add(LtGemmKey& key, const Tensor& addend) {
    key.addend = true;
    addend_ = addend.data;
  }

  void run(LtGemmKey& key, const Tensor& out, const Prepared& left, const Prepared& right) {
    const LtGemmArgs args = {.out = out.data,
                             .left = left.data,
                             .right = right.data,
                             .left_scale_inv = left.scale_inv,
                             .right_scale_inv = right.scale_inv,
                             .bias = bias_,
                             .addend = addend_,
                             .workspace = workspace_,
                             .workspace_bytes = kLtWorkspaceBytes};
    key.alignment = alignment_of(args);
    gemm_.run(stream_, key, args);
  }

 private:
  LtGemm& gemm_;
  cudaStream_t stream_;
  WorkspaceParts memory_;
  std::byte* workspace_;
  const void* bias_ = nullptr;
  const void* addend_ = nullptr;
};

/// Whether there is nothing to sum. If so, `out` becomes the bias, or zeros, or stays if `accumulate`.
bool is_empty(cudaStream_t stream, const Tensor& out, std::int64_t depth, const Tensor& bias, bool accumulate) {
  if (out.count() == 0) return true;
  if (depth > 0) return false;
  if (!bias.empty()) {
    fill_rows(stream, out, bias);
  } else if (!accumulate) {
    SHARD8_CUDA_CHECK(cudaMemsetAsync(out.data, 0, out.bytes(), stream));
  }
  return true;
}

}  // namespace

void gemm_fprop(LtGemm& gemm, cudaStream_t stream, const Tensor& y, const Operand& x, const Operand& w,
                const Tensor& bias, const Tensor& memory, const Tensor& residual) {
  SHARD8_REQUIRE(residual.empty() || (residual.dtype == y.dtype && residual.count() == y.count() && x.cols() > 0),
                 "gemm_fprop: residual {} of {}, depth {}; needed is y's {} of {}, and something to sum",
                 to_string(residual.shape), name_of(residual.dtype), x.cols(), to_string(y.shape), name_of(y.dtype));
  if (is_empty(stream, y, x.cols(), bias, false)) return;
  Product product(gemm, stream, memory);
  const Prepared left = product.prepare(x, Depth::columns), right = product.prepare(w, Depth::columns);
  LtGemmKey key = fprop_key(x.rows(), x.cols(), w.rows(), y.dtype, left.factor, right.factor);
  key.fast_accumulation = left.factor.scaling == LtScaling::tensor;
  if (!residual.empty()) product.add(key, residual);
  if (!bias.empty()) product.add_bias(key, y, bias);
  product.run(key, y, left, right);
}

void gemm_dgrad(LtGemm& gemm, cudaStream_t stream, const Tensor& dx, const Operand& dy, const Operand& w,
                bool accumulate, const Tensor& memory) {
  if (is_empty(stream, dx, dy.cols(), {}, accumulate)) return;
  Product product(gemm, stream, memory);
  const Prepared left = product.prepare(dy, Depth::columns), right = product.prepare(w, Depth::rows);
  LtGemmKey key = dgrad_key(dy.rows(), w.cols(), w.rows(), dx.dtype, left.factor, right.factor);
  key.accumulate = accumulate;
  product.run(key, dx, left, right);
}

void gemm_wgrad(LtGemm& gemm, cudaStream_t stream, const Tensor& dw, const Operand& dy, const Operand& x,
                bool accumulate, const Tensor& memory) {
  if (is_empty(stream, dw, x.rows(), {}, accumulate)) return;
  Product product(gemm, stream, memory);
  const Prepared left = product.prepare(dy, Depth::rows), right = product.prepare(x, Depth::rows);
  LtGemmKey key = wgrad_key(x.rows(), x.cols(), dy.cols(), dw.dtype, left.factor, right.factor);
  key.accumulate = accumulate;
  product.run(key, dw, left, right);
}

}  // namespace shard8::kernels::cuda

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/libraries.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.hpp"
#include "kernels/attention.hpp"
#include "kernels/check/arguments.hpp"
#include "kernels/check/gemm.hpp"
#include "kernels/cuda/cutlass_gemm.hpp"
#include "kernels/cuda/gemm.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/library_check.hpp"
#include "kernels/cuda/lt_gemm.hpp"
#include "kernels/cuda/sdpa.hpp"
#include "kernels/gemm.hpp"
#include "kernels/kokkos/portable.hpp"
#include "kernels/planned/device_memory.hpp"
#include "tensor/cuda/device.hpp"
#include "tensor/transfer.hpp"

namespace shard8::kernels {

struct Libraries::Parts {
  cuda::LtGemm gemm;
  cuda::Sdpa sdpa;
};

namespace {

using cuda::LtTuning;
using tensor::Operand;
using tensor::Tensor;
using tensor::cuda::stream_of;

/// The handles in a workspace. Throws Error(failed), naming the kernel, if the workspace has no libraries.
Libraries::Parts& parts_of(const Workspace& workspace, const char* kernel) {
  SHARD8_REQUIRE(workspace.libraries != nullptr, "{}: the workspace has no libraries; on a device it needs them",
                 kernel);
  return workspace.libraries->parts();
}

LtTuning lt_tuning(Tuning tuning) {
  switch (tuning) {
    case Tuning::off:
      return LtTuning::off;
    case Tuning::candidates:
      return LtTuning::candidates;
    case Tuning::exhaustive:
      return LtTuning::exhaustive;
  }
  return LtTuning::off;
}

std::string describe(const cuda::LtSearch& search) {
  return fmt::format("{} of {} configurations checked, {} of {} supported ones run; best: {}", search.checked,
                     search.possible, search.timed, search.supported, cuda::describe(search.best));
}

}  // namespace

Libraries::Libraries() : parts_(std::make_unique<Parts>()) {}
Libraries::~Libraries() = default;

void Libraries::set_tuning(Tuning tuning) {
  tuning_ = tuning;
  parts_->gemm.set_tuning(lt_tuning(tuning));
}

std::string Libraries::algorithms() const { return cuda::to_text(parts_->gemm.algorithms()); }

bool Libraries::adopt(std::string_view algorithms) { return parts_->gemm.adopt(cuda::algorithms_of_text(algorithms)); }

std::vector<Libraries::Choice> Libraries::choices() const {
  std::vector<Choice> choices;
  for (const cuda::LtAlgorithm& a : parts_->gemm.algorithms().list) {
    Choice choice{.product = cuda::describe(a.key),
                  .m = a.key.rows,
                  .n = a.key.cols,
                  .k = a.key.depth,
                  .dtype = std::string(tensor::name_of(a.key.left.dtype)),
                  .out_dtype = std::string(tensor::name_of(a.key.out)),
                  .flops = cuda::flops(a.key),
                  .microseconds = a.microseconds,
                  .first_microseconds = a.first_microseconds,
                  .best_microseconds = a.searched_microseconds,
                  .guess = a.index,
                  .guesses = a.offered,
                  .cutlass = a.cutlass.version > 0,
                  .searched = {}};
    if (const cuda::LtSearch* search = parts_->gemm.searched(a.key)) choice.searched = describe(*search);
    choices.push_back(std::move(choice));
  }
  return choices;
}

std::string blas_description() {
  const std::int32_t cutlass = cuda::cutlass_version();
  const std::string kernels =
      cutlass > 0 ? fmt::format("CUTLASS {}.{}.{}", cutlass / 100, cutlass / 10 % 10, cutlass % 10) : "no CUTLASS";
  return fmt::format("{}, {}, {}", cuda::cublaslt_version(), cuda::cudnn_version(), kernels);
}

int blas_threads(int) { return 0; }

void reserve_blas_memory(int) {}

namespace {

constexpr std::size_t kMemory = std::size_t{256} << 20;  ///< chosen: several times the second cache
/// Bytes a second that one block of 1024 threads reads. Chosen: 132 such blocks read 3 TB/s on an H100, and this is two
/// thirds of one block's share.
constexpr double kBlockBandwidth = 15e9;

}  // namespace

struct Waiter::Parts {
  double bandwidth = 0;
  double overhead_s = 0;  ///< from one kernel's end to the next one's begin
  int blocks = 1;
  std::uint64_t* memory = nullptr;

  void launch(cudaStream_t stream, double seconds) const {
    cuda::launch_wait(stream, static_cast<std::uint64_t>(std::llround(seconds * 1e9)), blocks, memory,
                      memory == nullptr ? 0 : kMemory, bandwidth / 1e9);
  }
};

Waiter::Waiter(const tensor::Exec& exec, double read_bandwidth) : parts_(std::make_unique<Parts>()) {
  const cudaStream_t stream = tensor::cuda::stream_of(exec);
  if (read_bandwidth > 0) {
    const int most = tensor::cuda::describe_device(tensor::cuda::current_device()).multiprocessors;
    parts_->bandwidth = read_bandwidth;
    parts_->blocks = std::clamp(static_cast<int>(std::ceil(read_bandwidth / kBlockBandwidth)), 1, most);
    SHARD8_CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&parts_->memory), kMemory));
    SHARD8_CUDA_CHECK(cudaMemsetAsync(parts_->memory, 0, kMemory, stream));
  }
  constexpr int kCalls = 200;
  constexpr double kEach_s = 20e-6;
  const tensor::cuda::Event begin(tensor::cuda::Event::Times::yes), end(tensor::cuda::Event::Times::yes);
  for (int round = 0; round < 2; ++round) {  // the first one loads the kernel
    begin.record(stream);
    for (int k = 0; k < kCalls; ++k) parts_->launch(stream, kEach_s);
    end.record(stream);
    end.synchronize();
  }
  parts_->overhead_s = std::max(0.0, end.seconds_since(begin) / kCalls - kEach_s);
}

Waiter::~Waiter() { cudaFree(parts_->memory); }

void Waiter::wait(const tensor::Exec& exec, double seconds) {
  if (seconds <= 0) return;
  parts_->launch(tensor::cuda::stream_of(exec), std::max(0.0, seconds - parts_->overhead_s));
}

std::size_t Waiter::memory() const { return parts_->memory == nullptr ? 0 : kMemory; }

std::uint64_t Waiter::bytes_read() const { return 0; }

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

namespace {

void require_shape(const char* kernel, const AttentionShape& s) {
  SHARD8_REQUIRE(s.kv_heads > 0 && s.heads % s.kv_heads == 0, "{}: {} heads on {} kv heads; must divide", kernel,
                 s.heads, s.kv_heads);
}

std::span<std::byte> bytes_of(const Workspace& workspace) { return {workspace.memory.data, workspace.memory.bytes()}; }

}  // namespace

void attention_forward(const tensor::Exec& exec, const tensor::Tensor& o, const tensor::Tensor& lse,
                       const tensor::Tensor& qkv, const AttentionShape& shape, const Workspace& workspace) {
  constexpr auto kName = "attention_forward";
  require_shape(kName, shape);
  require_count(kName, "o", o, shape.tokens() * shape.heads * shape.head_dim);
  require_count(kName, "lse", lse, shape.tokens() * shape.heads);
  require_count(kName, "qkv", qkv, shape.tokens() * shape.qkv_columns());
  if (qkv.dtype == tensor::DType::bf16) {
    const cuda::SdpaForward operands{o.as<tensor::BFloat16>(), lse.as<float>(), qkv.data};
    if (parts_of(workspace, kName).sdpa.forward(stream_of(exec), operands, shape, bytes_of(workspace))) return;
  }
  portable_attention_forward(exec, o, lse, qkv, shape);
}

void attention_backward(const tensor::Exec& exec, const tensor::Tensor& dqkv, const tensor::Tensor& dout,
                        const tensor::Tensor& o, const tensor::Tensor& qkv, const tensor::Tensor& lse,
                        const AttentionShape& shape, const Workspace& workspace) {
  constexpr auto kName = "attention_backward";
  require_shape(kName, shape);
  for (const auto& [name, t] : {std::pair("dqkv", &dqkv), std::pair("qkv", &qkv)}) {
    require_count(kName, name, *t, shape.tokens() * shape.qkv_columns());
  }
  for (const auto& [name, t] : {std::pair("dout", &dout), std::pair("o", &o)}) {
    require_count(kName, name, *t, shape.tokens() * shape.heads * shape.head_dim);
  }
  require_count(kName, "lse", lse, shape.tokens() * shape.heads);
  if (qkv.dtype == tensor::DType::bf16) {
    using tensor::BFloat16;
    const cuda::SdpaBackward operands{dqkv.as<BFloat16>(), dout.as<BFloat16>(), o.as<BFloat16>(), qkv.data,
                                      lse.as<float>()};
    if (parts_of(workspace, kName).sdpa.backward(stream_of(exec), operands, shape, bytes_of(workspace))) return;
  }
  portable_attention_backward(exec, dqkv, dout, o, qkv, lse, shape);
}

std::size_t attention_workspace_bytes(const AttentionShape& shape, int) { return cuda::sdpa_workspace_bytes(shape); }

}  // namespace shard8::kernels

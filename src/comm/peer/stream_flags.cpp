// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/peer/stream_flags.hpp"

#include "base/error.hpp"
#include "tensor/cuda/check.hpp"

namespace shard8::comm::peer {

StreamFlags::StreamFlags() {
  // Found at run time, so that nothing links the driver.
  constexpr unsigned kVersion = 12000;
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  SHARD8_CUDA_CHECK(
      cudaGetDriverEntryPointByVersion("cuStreamBatchMemOp", &function, kVersion, cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess)
    base::fail(base::ExitCode::environment, "the driver has no cuStreamBatchMemOp of CUDA 12; use a newer one");
  batch_ = reinterpret_cast<BatchMemOp>(function);
}

void StreamFlags::write(FlagAddress flag, std::uint32_t number) {
  auto& operation = operations_.emplace_back();
  operation = {};
  operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operation.writeValue.address = reinterpret_cast<CUdeviceptr>(flag);
  operation.writeValue.value = number;
  operation.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
}

void StreamFlags::await(FlagAddress flag, std::uint32_t number) {
  auto& operation = operations_.emplace_back();
  operation = {};
  operation.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  operation.waitValue.address = reinterpret_cast<CUdeviceptr>(flag);
  operation.waitValue.value = number;
  operation.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
}

void StreamFlags::enqueue(cudaStream_t stream) {
  if (operations_.empty()) return;
  const CUresult status = batch_(stream, static_cast<unsigned>(operations_.size()), operations_.data(), 0);
  if (status != CUDA_SUCCESS)
    base::fail(base::ExitCode::failed, "cuda: cuStreamBatchMemOp of {} operations gave {}", operations_.size(),
               static_cast<int>(status));
  operations_.clear();
}

}  // namespace shard8::comm::peer

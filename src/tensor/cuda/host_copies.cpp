// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/transfer.hpp"

#include <vector>

#include "base/error.hpp"
#include "tensor/cuda/device.hpp"

namespace shard8::tensor {

struct HostCopies::Memory {
  Memory(std::size_t size, int groups)
      : bytes(size), device(cuda::current_device()), copied(static_cast<std::size_t>(groups)) {
    if (bytes == 0) return;
    const cudaError_t status = cudaMallocHost(&data, bytes);
    if (status != cudaSuccess) {
      static_cast<void>(cudaGetLastError());  // reported here; later calls must not see it
      base::fail(
          base::ExitCode::environment,
          "{} bytes of pinned host memory for copies of the training state cannot be had ({}): ask for more memory "
          "for this job (Slurm: --mem), use more ranks in mesh.shard, or write no checkpoints",
          bytes, cudaGetErrorName(status));
    }
  }
  ~Memory() { cudaFreeHost(data); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::size_t bytes;
  void* data = nullptr;
  int device;
  cuda::Stream stream;
  cuda::Event ready;
  std::vector<cuda::Event> copied;  ///< by group
};

HostCopies::HostCopies(std::size_t bytes, int groups) : memory_(std::make_unique<Memory>(bytes, groups)) {}
HostCopies::~HostCopies() = default;

bool HostCopies::concurrent() { return true; }
std::byte* HostCopies::data() const { return static_cast<std::byte*>(memory_->data); }
std::size_t HostCopies::bytes() const { return memory_->bytes; }

void HostCopies::begin(const Exec& exec) {
  memory_->ready.record(cuda::stream_of(exec));
  memory_->ready.hold(memory_->stream);
}

void HostCopies::copy(std::byte* to, const Tensor& from) {
  if (!from.empty())
    SHARD8_CUDA_CHECK(cudaMemcpyAsync(to, from.data, from.bytes(), cudaMemcpyDeviceToHost, memory_->stream));
}

void HostCopies::end_group(int group) { memory_->copied[static_cast<std::size_t>(group)].record(memory_->stream); }

void HostCopies::hold(const Exec& exec, int group) const {
  memory_->copied[static_cast<std::size_t>(group)].hold(cuda::stream_of(exec));
}

void HostCopies::wait(int group) const {
  SHARD8_CUDA_CHECK(cudaSetDevice(memory_->device));  // of the calling thread
  memory_->copied[static_cast<std::size_t>(group)].synchronize();
}

}  // namespace shard8::tensor

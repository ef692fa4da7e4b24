// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "comm/nccl/device.hpp"
#include "tensor/cuda/device.hpp"
#include "tests/comm/buffer.hpp"
#include "tests/support/rank_device.hpp"

namespace shard8::comm::tests {

/// Gather memory of a group (of one rank: other memory) for tensors of one test.
struct Pool {
  static constexpr std::size_t kBytes = std::size_t{256} << 20;
  explicit Pool(const Communicator& group) : memory(group.gather_memory(kBytes)) {
    if (memory == nullptr) SHARD8_CUDA_CHECK(cudaMalloc(&plain, kBytes));
  }
  ~Pool() { cudaFree(plain); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  tensor::Tensor allocate(const tensor::Shape& shape, tensor::DType dtype) {
    std::byte* const base = memory == nullptr ? static_cast<std::byte*>(plain) : memory->data();
    const tensor::Tensor t{base + used, shape, dtype};
    used += (t.bytes() + 255) / 256 * 256;
    if (used > kBytes) std::abort();
    return t;
  }

  std::shared_ptr<DeviceMemory> memory;
  void* plain = nullptr;
  std::size_t used = 0;
};

/// Communicators of all ranks with a device.
struct Job {
  explicit Job(nccl::Gather gather) : world(MPI_COMM_WORLD, "world", Waiting::yield, &log) {
    nccl::Settings settings;
    settings.share_devices = shard8::tests::share_devices();
    settings.gather = gather;
    settings.limits = {std::chrono::seconds(60), std::chrono::seconds(60)};
    settings.alarm = [](const std::string& text) {
      std::fprintf(stderr, "%s\n", text.c_str());
      std::_Exit(5);
    };
    world.attach(nccl::make_device(world, compute, std::move(settings)), {.compute = true});
    overlapped.emplace(world.split(0, world.rank(), "overlapped", {.gather = true, .reduce = true}));
    half.emplace(world.split(world.rank() % 2, world.rank(), "half", {.gather = true, .reduce = true}));
    pool.emplace(*overlapped);
    half_pool.emplace(*half);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  tensor::Tensor allocate(const tensor::Shape& shape, tensor::DType dtype) { return pool->allocate(shape, dtype); }

  tensor::cuda::Stream compute;
  profile::CollectiveLog log;
  Communicator world;                      ///< its collectives on the compute stream
  std::optional<Communicator> overlapped;  ///< the same ranks, on streams of their own
  std::optional<Communicator> half;        ///< the even or the odd ranks
  std::optional<Pool> pool, half_pool;
};

/// Made when first asked for (it takes a second); to be ended before MPI.
using Jobs = std::map<nccl::Gather, std::unique_ptr<Job>>;
inline Jobs& jobs() {
  static Jobs all;
  return all;
}
inline Job& job(nccl::Gather gather = nccl::Gather::nccl) {
  auto& one = jobs()[gather];
  if (one == nullptr) one = std::make_unique<Job>(gather);
  one->pool->used = one->half_pool->used = 0;
  return *one;
}

/// On the compute stream; `from` and `to` must live until finish().
inline void upload(const Job& j, const tensor::Tensor& to, const std::vector<std::byte>& from) {
  if (!to.empty()) SHARD8_CUDA_CHECK(cudaMemcpyAsync(to.data, from.data(), to.bytes(), cudaMemcpyDefault, j.compute));
}
inline void finish(const Job& j) { SHARD8_CUDA_CHECK(cudaStreamSynchronize(j.compute)); }
inline std::vector<std::byte> download(const Job& j, const tensor::Tensor& from) {
  std::vector<std::byte> bytes(from.bytes());
  if (!from.empty())
    SHARD8_CUDA_CHECK(cudaMemcpyAsync(bytes.data(), from.data, bytes.size(), cudaMemcpyDefault, j.compute));
  finish(j);
  return bytes;
}
/// The elements of a downloaded tensor, by Buffer::get.
inline Buffer download_buffer(const Job& j, const tensor::Tensor& from) {
  Buffer buffer(from.shape, from.dtype);
  buffer.bytes() = download(j, from);
  return buffer;
}

/// Memory outside of the gather memory.
class Block {
 public:
  explicit Block(std::size_t bytes) { SHARD8_CUDA_CHECK(cudaMalloc(&memory_, bytes == 0 ? 1 : bytes)); }
  ~Block() { cudaFree(memory_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  tensor::Tensor tensor(const tensor::Shape& shape, tensor::DType dtype) const {
    return {static_cast<std::byte*>(memory_), shape, dtype};
  }

 private:
  void* memory_ = nullptr;
};

/// Work of some milliseconds for the compute stream.
inline void keep_busy(const Job& j, const Block& block, std::size_t bytes, int times) {
  for (int i = 0; i < times; ++i)
    SHARD8_CUDA_CHECK(cudaMemsetAsync(block.tensor({1}, tensor::DType::u8).data, i, bytes, j.compute));
}

using shard8::tests::kSkipped;

/// Makes this rank's device the current one. False, on every rank, where a node has fewer than ranks.
inline bool take_device(MPI_Comm world) {
  const auto device = shard8::tests::rank_device(world);
  if (device) SHARD8_CUDA_CHECK(cudaSetDevice(*device));
  return device.has_value();
}

}  // namespace shard8::comm::tests

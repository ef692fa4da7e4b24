// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "tensor/cuda/device.hpp"
#include "tests/train/allocation_counts.hpp"
#include "tests/train/decks.hpp"
#include "tests/train/default_stream.hpp"
#include "tests/train/training.hpp"

// A step after the first one on a device does not allocate, does not use the default stream, and does not wait for the
// whole device. For each of these, a second test shows that the first one would notice it.

namespace shard8 {
namespace {

using namespace std::chrono_literals;
using test::Fp8Variant;

constexpr int kSteps = 8, kFirst = 1, kBatch = 8, kLayers = 3;

/// BF16 and every recipe on meshes for as many ranks as there are, with two micro-batches.
std::vector<Fp8Variant> variants() {
  std::vector<Fp8Variant> all;
  for (const auto& mesh : {std::array{1, 1, 1}, {1, 2, 1}, {1, 1, 2}, {1, 2, 2}, {2, 2, 1}})
    for (const char* recipe : {"none", "delayed", "current", "block", "mxfp8"}) {
      Fp8Variant v{mesh, recipe, kBatch / 2 / (mesh[0] * mesh[1])};
      v.arch = recipe == std::string("current") ? "gpt2" : "llama";
      v.recompute = recipe == std::string("delayed") ? "selective" : "none";
      if (ranks_of(v) == test::world_size()) all.push_back(v);
    }
  return all;
}

/// Calls `check` with each variant's training after its first step; `check` runs the other steps.
void each_training(const std::function<void(test::Training&)>& check) {
  ASSERT_FALSE(variants().empty());
  for (const Fp8Variant& v : variants()) {
    SCOPED_TRACE(name_of(v));
    test::Training training(test::fp8_deck(v, kSteps, kLayers, kBatch), MPI_COMM_WORLD);
    training.run(0, kFirst);
    check(training);
  }
}

/// Device memory, and a stream that does not wait for the default stream.
struct Place {
  Place() { SHARD8_CUDA_CHECK(cudaMalloc(&memory, kBytes)); }
  ~Place() { cudaFree(memory); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  static constexpr std::size_t kBytes = 1 << 20;
  void* memory = nullptr;
  tensor::cuda::Stream stream;
};

TEST(DefaultStream, IsNotUsedByAStep) {
  each_training([](test::Training& training) {
    test::DefaultStreamTrap trap;
    EXPECT_NO_THROW(training.run(kFirst, kSteps - kFirst));
    EXPECT_FALSE(trap.sprung()) << "work on the default stream, or a wait for the whole device";
  });
}

TEST(DefaultStream, TrapSeesWhoUsesIt) {
  Place place;
  const auto springs = [](const std::function<cudaError_t()>& use) {
    test::DefaultStreamTrap trap;
    const cudaError_t status = use();
    cudaGetLastError();
    return trap.sprung() || status != cudaSuccess;
  };
  EXPECT_TRUE(springs([&] { return cudaMemsetAsync(place.memory, 0, 16, cudaStreamLegacy); }));
  EXPECT_TRUE(springs([&] { return cudaMemset(place.memory, 0, 16); }));
  EXPECT_TRUE(springs([&] { return cudaDeviceSynchronize(); }));
  EXPECT_FALSE(springs([&] {
    const cudaError_t status = cudaMemsetAsync(place.memory, 0, 16, place.stream);
    return status != cudaSuccess ? status : cudaStreamSynchronize(place.stream);
  }));
}

TEST(HeldDefaultStream, IsNotWaitedForByAStep) {
  each_training([](test::Training& training) {
    const test::HeldDefaultStream held(20s);
    training.run(kFirst, kSteps - kFirst);
    EXPECT_FALSE(held.expired()) << "a step waits for the default stream or for the whole device";
  });
}

TEST(HeldDefaultStream, SeesWhoWaitsForIt) {
  Place place;
  cudaStream_t blocking = nullptr;  // a stream that waits for the default stream
  SHARD8_CUDA_CHECK(cudaStreamCreate(&blocking));
  const auto waits = [](const std::function<void()>& use) {
    const test::HeldDefaultStream held(500ms);
    use();
    return held.expired();
  };
  EXPECT_TRUE(waits([] { SHARD8_CUDA_CHECK(cudaDeviceSynchronize()); }));
  EXPECT_TRUE(waits([&] {
    SHARD8_CUDA_CHECK(cudaMemsetAsync(place.memory, 0, 16, cudaStreamLegacy));
    SHARD8_CUDA_CHECK(cudaStreamSynchronize(cudaStreamLegacy));
  }));
  EXPECT_TRUE(waits([&] {
    SHARD8_CUDA_CHECK(cudaMemsetAsync(place.memory, 0, 16, blocking));
    SHARD8_CUDA_CHECK(cudaStreamSynchronize(blocking));
  }));
  EXPECT_FALSE(waits([&] {
    SHARD8_CUDA_CHECK(cudaMemsetAsync(place.memory, 0, 16, place.stream));
    SHARD8_CUDA_CHECK(cudaStreamSynchronize(place.stream));
  }));
  SHARD8_CUDA_CHECK(cudaStreamDestroy(blocking));
}

TEST(Allocation, NoneOnTheDeviceInAStep) {
  each_training([](test::Training& training) {
    const std::size_t free = tensor::cuda::free_memory();
    const auto before = test::allocation_counts();
    training.run(kFirst, kSteps - kFirst);
    const auto after = test::allocation_counts();
    EXPECT_EQ(tensor::cuda::free_memory(), free);
    EXPECT_EQ(after.device - before.device, 0U) << "calls that take or free memory of the device or pinned memory";
  });
}

TEST(Allocation, IsSeen) {
  const std::size_t free = tensor::cuda::free_memory();
  const auto before = test::allocation_counts();
  void *memory = nullptr, *pinned = nullptr;
  SHARD8_CUDA_CHECK(cudaMalloc(&memory, 64 << 20));
  SHARD8_CUDA_CHECK(cudaHostAlloc(&pinned, 4096, cudaHostAllocDefault));
  EXPECT_LE(tensor::cuda::free_memory() + (64 << 20), free);
  EXPECT_EQ(test::allocation_counts().device - before.device, 2U);
  SHARD8_CUDA_CHECK(cudaFree(memory));
  SHARD8_CUDA_CHECK(cudaFreeHost(pinned));
  EXPECT_EQ(test::allocation_counts().device - before.device, 4U);
}

}  // namespace
}  // namespace shard8

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/cuda/device.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "tensor/cuda/check.hpp"

namespace shard8::tensor::cuda {

namespace {

std::string uuid_of(const cudaDeviceProp& properties) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < sizeof properties.uuid.bytes; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned>(static_cast<unsigned char>(properties.uuid.bytes[i])));
  }
  return text;
}

int attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  SHARD8_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, index));
  return value;
}

}  // namespace

void separate_streams() { setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); }

int device_count() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver) {
    static_cast<void>(cudaGetLastError());  // clears the error, so that later calls do not find it
    return 0;
  }
  SHARD8_CUDA_CHECK(status);
  return count;
}

Device describe_device(int index) {
  cudaDeviceProp properties{};
  SHARD8_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  std::array<char, 32> bus{};
  SHARD8_CUDA_CHECK(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), index));
  // Memory moves its width twice in a clock (kHz).
  const double bits = 2e3 * attribute(cudaDevAttrMemoryClockRate, index) *
                      static_cast<double>(attribute(cudaDevAttrGlobalMemoryBusWidth, index));
  return {index,
          properties.name,
          properties.major * 10 + properties.minor,
          properties.multiProcessorCount,
          properties.totalGlobalMem,
          bits / 8,
          uuid_of(properties),
          bus.data()};
}

int current_device() {
  int index = 0;
  SHARD8_CUDA_CHECK(cudaGetDevice(&index));
  return index;
}

std::size_t free_memory() {
  std::size_t free = 0, total = 0;
  SHARD8_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return free;
}

std::size_t total_memory() {
  std::size_t free = 0, total = 0;
  SHARD8_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return total;
}

std::string version_text() {
  int runtime = 0, driver = 0;
  SHARD8_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  SHARD8_CUDA_CHECK(cudaDriverGetVersion(&driver));
  return fmt::format("CUDA {}.{} (driver {}.{})", runtime / 1000, runtime % 1000 / 10, driver / 1000,
                     driver % 1000 / 10);
}

}  // namespace shard8::tensor::cuda

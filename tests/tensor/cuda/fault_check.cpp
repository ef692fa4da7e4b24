// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// A program of its own, because no call to the device succeeds behind a kernel that failed.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <string>

#include "base/error.hpp"
#include "tensor/cuda/device.hpp"
#include "tests/tensor/cuda/trap.hpp"

namespace {

/// The message with which `call` fails; empty if it does not.
template <class Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const shard8::base::Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return 77;  // skipped
  shard8::test::launch_trap();
  const std::string fault = message_of([] { SHARD8_CUDA_CHECK(cudaDeviceSynchronize()); });
  void* memory = nullptr;
  const std::string later = message_of([&] { SHARD8_CUDA_CHECK(cudaMalloc(&memory, 1)); });
  std::printf("fault: %s\nlater: %s\n", fault.c_str(), later.c_str());
  return fault.find("cudaDeviceSynchronize() gave 719") != std::string::npos && later == fault ? 0 : 1;
}

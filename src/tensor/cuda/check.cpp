// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/cuda/check.hpp"

#include <string>
#include "base/error.hpp"
#include "base/short_path.hpp"

namespace shard8::tensor::cuda {
namespace {

using base::ExitCode;

std::string current_device() {
  int device = -1;
  if (cudaGetDevice(&device) != cudaSuccess) return "no device";
  return fmt::format("device {}", device);
}

const char* advice(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation:
      return "; the device is too small or shared: shorten the sequence or the micro-batch, or use more devices";
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
      return "; check the driver with nvidia-smi, and CUDA_VISIBLE_DEVICES";
    case cudaErrorNoKernelImageForDevice:
      return "; this build has no code for the device: build for its architecture";
    default:
      return "";
  }
}

// A device or memory that the machine lacks is an error of the environment, not of the run.
ExitCode code_of(cudaError_t status) {
  switch (status) {
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorMemoryAllocation:
      return ExitCode::environment;
    default:
      return ExitCode::failed;
  }
}

}  // namespace

void cuda_failed(cudaError_t status, const char* expression, const char* file, int line) {
  base::fail(code_of(status), "cuda: {} gave {} ({}: {}) on {} at {}:{}{}", expression, static_cast<int>(status),
             cudaGetErrorName(status), cudaGetErrorString(status), current_device(), base::short_path(file), line,
             advice(status));
}

}  // namespace shard8::tensor::cuda

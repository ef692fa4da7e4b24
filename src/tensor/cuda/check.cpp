// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/cuda/check.hpp"

#include <mutex>
#include <string>

#include "base/error.hpp"

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

/// Whether every later call of this process gives the same status: a kernel has failed, and the context is lost.
bool is_lasting(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
      return true;
    default:
      return false;
  }
}

/// `message`, or the first one for which this was called.
std::string first_of(const std::string& message) {
  static std::mutex mutex;
  static std::string first;
  const std::lock_guard guard(mutex);
  if (first.empty()) first = message;
  return first;
}

}  // namespace

void cuda_failed(cudaError_t status, const char* expression, const char* file, int line) {
  const std::string message = fmt::format(
      "cuda: {} gave {} ({}: {}) on {} at {}:{}{}", expression, static_cast<int>(status), cudaGetErrorName(status),
      cudaGetErrorString(status), current_device(), base::short_path(file), line, advice(status));
  base::fail(code_of(status), "{}", is_lasting(status) ? first_of(message) : message);
}

}  // namespace shard8::tensor::cuda

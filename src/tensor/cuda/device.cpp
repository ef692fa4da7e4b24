// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/cuda/device.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <string>

#include "base/error.hpp"

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

namespace {

using base::ExitCode;

std::string current_device_text() {
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
      cudaGetErrorString(status), current_device_text(), base::short_path(file), line, advice(status));
  base::fail(code_of(status), "{}", is_lasting(status) ? first_of(message) : message);
}

Event::Event(Times times) {
  cudaEvent_t event = nullptr;
  SHARD8_CUDA_CHECK(cudaEventCreateWithFlags(&event, times == Times::yes ? cudaEventDefault : cudaEventDisableTiming));
  event_.reset(event);
}

void Event::record(cudaStream_t stream) const { SHARD8_CUDA_CHECK(cudaEventRecord(event_.get(), stream)); }

void Event::hold(cudaStream_t stream) const { SHARD8_CUDA_CHECK(cudaStreamWaitEvent(stream, event_.get(), 0)); }

bool Event::happened() const {
  const cudaError_t status = cudaEventQuery(event_.get());
  if (status == cudaErrorNotReady) return false;
  SHARD8_CUDA_CHECK(status);
  return true;
}

void Event::synchronize() const { SHARD8_CUDA_CHECK(cudaEventSynchronize(event_.get())); }

double Event::seconds_since(const Event& start) const {
  float milliseconds = 0;
  SHARD8_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start.event_.get(), event_.get()));
  return static_cast<double>(milliseconds) * 1e-3;
}

Stream::Stream(Urgency urgency) {
  int least = 0, greatest = 0;
  SHARD8_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t stream = nullptr;
  SHARD8_CUDA_CHECK(
      cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, urgency == Urgency::high ? greatest : least));
  stream_.reset(stream);
}

}  // namespace shard8::tensor::cuda

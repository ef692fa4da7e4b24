// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>

#include "tensor/runtime.hpp"

namespace shard8::tensor::cuda {

/// A device as CUDA describes it.
struct Device {
  int index = 0;
  std::string name;
  int compute_capability = 0;  ///< 90 for 9.0
  int multiprocessors = 0;
  std::size_t memory = 0;       ///< bytes
  double memory_bandwidth = 0;  ///< bytes/s, by the memory's clock and width; 0: the driver does not say them
  std::string uuid;             ///< "GPU-01234567-89ab-cdef-0123-456789abcdef"
  std::string pci;              ///< the device's place on the bus: "0000:1B:00.0"
};

/// Gives streams separate queues: sets CUDA_DEVICE_MAX_CONNECTIONS=32, the most that a device has, unless the
/// environment sets it. Must be called before the first call of CUDA. Streams that share a queue wait for each other.
/// Ranks whose streams wait for streams of other ranks could then wait in a circle.
void separate_streams();

/// How many devices this process sees; 0 without a driver.
int device_count();
/// Throws base::Error if there is no device `index`.
Device describe_device(int index);
/// The number of the current device of this thread.
int current_device();

/// Free and total bytes of the current device's memory.
std::size_t free_memory();
std::size_t total_memory();

/// Versions of the CUDA runtime and the driver: "CUDA 13.0 (driver 13.0)".
std::string version_text();

}  // namespace shard8::tensor::cuda

namespace shard8::tensor::cuda {

/// Throws base::Error with the expression, CUDA's number, name and text of the status, the current device, and
/// folder/file:line. The code is environment for what the machine lacks (a device, a driver, memory, code for the
/// device), else failed. After a fault of a kernel every call fails; then the message is that of the first one. This
/// header includes neither fmt nor base, so that device code can include it.
[[noreturn]] void cuda_failed(cudaError_t status, const char* expression, const char* file, int line);

inline void check(cudaError_t status, const char* expression, const char* file, int line) {
  if (status != cudaSuccess) cuda_failed(status, expression, file, line);
}

}  // namespace shard8::tensor::cuda

/// Evaluates a call that returns cudaError_t; throws base::Error unless it is success.
#define SHARD8_CUDA_CHECK(expression) ::shard8::tensor::cuda::check((expression), #expression, __FILE__, __LINE__)

/// Checks the kernel launch just made: throws base::Error if the launch failed. `name` is a string literal for the
/// message. An error while the kernel runs is not seen here.
#define SHARD8_CUDA_CHECK_LAUNCH(name) \
  ::shard8::tensor::cuda::check(::cudaGetLastError(), "launch of " name, __FILE__, __LINE__)

namespace shard8::tensor::cuda {

/// Destroys what CUDA made.
struct Destroy {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};

/// A CUDA event, owned: a place in a stream that other streams and the host can wait for. An event that was never
/// recorded counts as happened.
class Event {
 public:
  /// Whether the event records its time, which takes more time on the device.
  enum class Times { no, yes };
  explicit Event(Times times = Times::no);

  /// Records the event in `stream`: it happens when all work given to the stream so far is done.
  void record(cudaStream_t stream) const;
  /// Makes all work that is given to `stream` from now on wait for the last record().
  void hold(cudaStream_t stream) const;
  /// Whether the last record() has happened. Does not wait.
  bool happened() const;
  /// Blocks the host until the last record() has happened.
  void synchronize() const;
  /// Seconds from `start` to this event. Both events must record times and must have happened.
  double seconds_since(const Event& start) const;

 private:
  std::unique_ptr<CUevent_st, Destroy> event_;
};

/// A CUDA stream, owned. The stream does not wait for the default stream.
class Stream {
 public:
  /// `high`: waiting blocks of the stream's kernels get free multiprocessors before those of normal streams.
  enum class Urgency { normal, high };
  explicit Stream(Urgency urgency = Urgency::normal);

  cudaStream_t get() const { return stream_.get(); }
  operator cudaStream_t() const { return get(); }  // NOLINT: passed to CUDA as it is

 private:
  std::unique_ptr<CUstream_st, Destroy> stream_;
};

/// The CUDA stream of an execution space instance. Only builds for devices define it.
cudaStream_t stream_of(const Exec& exec);

}  // namespace shard8::tensor::cuda

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

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
  std::string pci;              ///< its place on the bus: "0000:1B:00.0"
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

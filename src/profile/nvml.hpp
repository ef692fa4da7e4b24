// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "profile/energy_counter.hpp"

namespace shard8::profile {

/// Names of a device that hold in every library and process. The device's number depends on CUDA_VISIBLE_DEVICES.
struct DeviceNames {
  std::string uuid{};  ///< "GPU-01234567-89ab-...", as CUDA tells it
  std::string pci{};   ///< "0000:1b:00.0"
};

/// The path of NVIDIA's management library: what the environment variable SHARD8_NVML says, or libnvidia-ml.so.1.
/// nvml_counter() loads the library.
std::string nvml_library();

/// The counter of the device's energy, with its clocks and its limit of power (NVML API reference:
/// nvmlDeviceGetTotalEnergyConsumption, in mJ since the driver was loaded). A slice of a device (MIG) has none.
EnergySources nvml_counter(const DeviceNames& device, const std::string& library = nvml_library());

}  // namespace shard8::profile

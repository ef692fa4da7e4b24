// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shard8::profile {

/// What a counter of energy counts: everything that runs there, also for other programs.
enum class EnergyKind : std::uint8_t {
  gpu,      ///< a device with its memory (NVML)
  package,  ///< a processor (RAPL)
  dram      ///< the memory of a processor (RAPL)
};
inline constexpr int kEnergyKinds = 3;

/// The name in reports and files.
constexpr std::string_view name_of(EnergyKind kind) {
  constexpr std::string_view names[kEnergyKinds] = {"gpu", "package", "dram"};
  return names[static_cast<std::size_t>(kind)];
}

/// What a counter shows at one time. What it does not tell is empty.
struct EnergyReading {
  std::chrono::steady_clock::time_point at{};
  std::uint64_t counts = 0;         ///< in units of EnergyCounter::unit_j()
  std::optional<double> limit_w{};  ///< the power at which the clocks are lowered
  std::optional<double> sm_mhz{}, memory_mhz{};
  std::optional<bool> at_limit{};  ///< whether clocks are lowered because of power
  std::string error{};             ///< why nothing could be read, with a remedy; empty: it was read
};

/// A counter of energy of this node. Used by one thread at a time.
class EnergyCounter {
 public:
  virtual ~EnergyCounter() = default;

  virtual EnergyKind kind() const = 0;
  /// Which one of its kind on the node: "GPU-..." (UUID), "package-0", "package-0/dram".
  virtual const std::string& name() const = 0;
  virtual double unit_j() const = 0;  ///< joules of a count
  /// The number of counts after which the counter begins with 0 again; 0: it must not go back.
  virtual std::uint64_t range() const = 0;
  virtual EnergyReading read() = 0;
};

/// What cannot be read on a rank.
struct EnergyMissing {
  EnergyKind kind = EnergyKind::package;
  std::string why{};  ///< place, reason and remedy
};

/// The counters of a rank's device and of its node, and what cannot be read there.
struct EnergySources {
  std::vector<std::unique_ptr<EnergyCounter>> counters{};
  std::vector<EnergyMissing> missing{};

  void join(EnergySources&& others) {
    for (auto& counter : others.counters) counters.push_back(std::move(counter));
    for (auto& why : others.missing) missing.push_back(std::move(why));
  }
};

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

/// Where Linux shows RAPL's counters: the environment variable SHARD8_POWERCAP, or /sys/class/powercap.
std::filesystem::path powercap_root();

/// The counters of the node's processors and of their memory: in `root` the zones intel-rapl:N named package-* and
/// their parts intel-rapl:N:M named dram (Linux, Documentation/power/powercap/powercap.rst; AMD's processors have the
/// same names). psys and intel-rapl-mmio count the same energy once more and are not read.
EnergySources rapl_counters(const std::filesystem::path& root = powercap_root());

}  // namespace shard8::profile

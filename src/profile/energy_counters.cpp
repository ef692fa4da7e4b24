// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/energy.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <system_error>
#include <utility>

namespace shard8::profile {
namespace {

namespace fs = std::filesystem;

/// The first line of a file, or why there is none: `error` without a remedy, `code` of the system, 0 for an empty file.
std::optional<std::string> line_of(const fs::path& file, std::string& error, int& code) {
  errno = 0;
  std::ifstream in(file);
  std::string line;
  if (in && std::getline(in, line)) return line;
  code = errno;
  error = fmt::format("{} cannot be read: {}", file.string(), code == 0 ? "it is empty" : std::strerror(code));
  return std::nullopt;
}

constexpr const char* kZoneRemedy = ": look whether the kernel still has the zone";

/// The name of a zone, or why it cannot be read.
std::optional<std::string> name_of_zone(const fs::path& zone, std::string& error) {
  int code = 0;
  auto name = line_of(zone / "name", error, code);
  if (!name) error += kZoneRemedy;
  return name;
}

/// The number in the file, or why there is none.
std::optional<std::uint64_t> number_in(const fs::path& file, std::string& error) {
  int reason = 0;
  const auto line = line_of(file, error, reason);
  if (!line) {
    error += reason == EACCES || reason == EPERM
                 ? " (since Linux 5.10 only root may): run as root, or let root do `chmod a+r "
                   "/sys/class/powercap/intel-rapl:*/energy_uj /sys/class/powercap/intel-rapl:*:*/energy_uj`"
                 : kZoneRemedy;
    return std::nullopt;
  }
  std::uint64_t number = 0;
  const auto [end, code] = std::from_chars(line->data(), line->data() + line->size(), number);
  if (code == std::errc() && end == line->data() + line->size()) return number;
  error = fmt::format("{} has '{}', not a number of microjoules: look at the kernel's powercap driver", file.string(),
                      *line);
  return std::nullopt;
}

class RaplCounter final : public EnergyCounter {
 public:
  RaplCounter(EnergyKind kind, std::string name, fs::path zone, std::uint64_t range)
      : kind_(kind), name_(std::move(name)), file_(std::move(zone) / "energy_uj"), range_(range) {}

  EnergyKind kind() const override { return kind_; }
  const std::string& name() const override { return name_; }
  double unit_j() const override { return 1e-6; }
  std::uint64_t range() const override { return range_; }

  EnergyReading read() override {
    EnergyReading reading;
    const auto counts = number_in(file_, reading.error);
    reading.at = std::chrono::steady_clock::now();
    reading.counts = counts.value_or(0);
    return reading;
  }

 private:
  EnergyKind kind_;
  std::string name_;
  fs::path file_;
  std::uint64_t range_;
};

/// Adds the zone's counter, or why it cannot be read.
void add(EnergySources& sources, EnergyKind kind, const std::string& name, const fs::path& zone) {
  std::string error;
  const auto range = number_in(zone / "max_energy_range_uj", error);
  if (range) {
    auto counter = std::make_unique<RaplCounter>(kind, name, zone, *range);
    error = counter->read().error;
    if (error.empty()) {
      sources.counters.push_back(std::move(counter));
      return;
    }
  }
  sources.missing.push_back({kind, std::move(error)});
}

}  // namespace

fs::path powercap_root() {
  const char* const given = std::getenv("SHARD8_POWERCAP");
  return given != nullptr && *given != '\0' ? given : "/sys/class/powercap";
}

EnergySources rapl_counters(const fs::path& root) {
  EnergySources sources;
  std::map<std::string, fs::path> zones;
  std::error_code error;
  for (fs::directory_iterator at(root, error), end; !error && at != end; at.increment(error))
    if (const std::string name = at->path().filename(); name.starts_with("intel-rapl:"))
      zones.emplace(name, at->path());
  std::map<std::string, std::string> packages;  // by zone
  for (const auto& [zone, path] : zones) {
    if (std::count(zone.begin(), zone.end(), ':') != 1) continue;
    std::string why;
    auto name = name_of_zone(path, why);
    if (!name) {
      sources.missing.push_back({EnergyKind::package, std::move(why)});
    } else if (name->starts_with("package")) {
      add(sources, EnergyKind::package, *name, path);
      packages.emplace(zone, std::move(*name));
    }
  }
  for (const auto& [zone, path] : zones) {
    const auto of = packages.find(zone.substr(0, zone.rfind(':')));
    if (of == packages.end() || std::count(zone.begin(), zone.end(), ':') != 2) continue;
    std::string why;
    const auto name = name_of_zone(path, why);
    if (!name) sources.missing.push_back({EnergyKind::dram, std::move(why)});
    if (name == "dram") add(sources, EnergyKind::dram, of->second + "/dram", path);
  }
  if (packages.empty() && sources.missing.empty())
    sources.missing.push_back(
        {EnergyKind::package,
         fmt::format("{} has no zone intel-rapl:N of a processor: load the kernel's module intel_rapl_msr; virtual "
                     "machines have none, and containers see it only if they are given it",
                     root.string())});
  return sources;
}

namespace {

// Types and constants of nvml.h (NVML API reference); the header is not needed to build.
using NvmlDevice = void*;
constexpr int kSuccess = 0, kNotSupported = 3, kNoPermission = 4, kGpuIsLost = 15;
constexpr int kSmClock = 1, kMemoryClock = 2;
constexpr unsigned kMigOn = 1;
constexpr unsigned long long kSwPowerCap = 0x4, kHwPowerBrake = 0x80;  // nvmlClocksEventReason...

/// The library's functions. Optional ones are null where a driver does not have them.
struct Nvml {
  explicit Nvml(const std::string& library) : handle(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle == nullptr) {
      const char* const why = ::dlerror();
      error = fmt::format("{} cannot be loaded ({}): install NVIDIA's driver, or set SHARD8_NVML to the library's path",
                          library, why == nullptr ? "no reason given" : why);
      return;
    }
    const bool all = find(init, "nvmlInit_v2") && find(shutdown, "nvmlShutdown") &&
                     find(error_string, "nvmlErrorString") && find(by_uuid, "nvmlDeviceGetHandleByUUID") &&
                     find(by_pci, "nvmlDeviceGetHandleByPciBusId_v2") &&
                     find(energy, "nvmlDeviceGetTotalEnergyConsumption");
    if (!all) {
      error = fmt::format("{} has no function {}: update NVIDIA's driver", library, absent);
      return;
    }
    find(limit, "nvmlDeviceGetEnforcedPowerLimit");
    find(clock, "nvmlDeviceGetClockInfo");
    find(mig_mode, "nvmlDeviceGetMigMode");
    if (!find(reasons, "nvmlDeviceGetCurrentClocksEventReasons"))
      find(reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
    const int code = init();
    is_up = code == kSuccess;
    if (!is_up) error = fmt::format("nvmlInit_v2 of {}: {}: look at nvidia-smi", library, error_string(code));
  }
  ~Nvml() {
    if (is_up) shutdown();
    if (handle != nullptr) ::dlclose(handle);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  template <class Function>
  bool find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(::dlsym(handle, name));
    if (function == nullptr) absent = name;
    return function != nullptr;
  }

  void* handle;
  std::string error;  ///< why it cannot be used
  const char* absent = "";
  bool is_up = false;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*by_uuid)(const char*, NvmlDevice*) = nullptr;
  int (*by_pci)(const char*, NvmlDevice*) = nullptr;
  int (*energy)(NvmlDevice, unsigned long long*) = nullptr;
  int (*limit)(NvmlDevice, unsigned*) = nullptr;
  int (*clock)(NvmlDevice, int, unsigned*) = nullptr;
  int (*mig_mode)(NvmlDevice, unsigned*, unsigned*) = nullptr;
  int (*reasons)(NvmlDevice, unsigned long long*) = nullptr;
};

class NvmlCounter final : public EnergyCounter {
 public:
  NvmlCounter(std::unique_ptr<Nvml> nvml, NvmlDevice device, std::string name)
      : nvml_(std::move(nvml)), device_(device), name_(std::move(name)) {}

  EnergyKind kind() const override { return EnergyKind::gpu; }
  const std::string& name() const override { return name_; }
  double unit_j() const override { return 1e-3; }
  std::uint64_t range() const override { return 0; }

  EnergyReading read() override {
    EnergyReading reading;
    unsigned long long counts = 0;
    const int code = nvml_->energy(device_, &counts);
    reading.at = std::chrono::steady_clock::now();
    if (code != kSuccess) {
      reading.error = fmt::format("nvmlDeviceGetTotalEnergyConsumption of {}: {}{}", name_, nvml_->error_string(code),
                                  remedy(code));
      return reading;
    }
    reading.counts = counts;
    unsigned value = 0;
    if (nvml_->limit != nullptr && nvml_->limit(device_, &value) == kSuccess) reading.limit_w = 1e-3 * value;
    if (nvml_->clock != nullptr && nvml_->clock(device_, kSmClock, &value) == kSuccess) reading.sm_mhz = value;
    if (nvml_->clock != nullptr && nvml_->clock(device_, kMemoryClock, &value) == kSuccess) reading.memory_mhz = value;
    unsigned long long reasons = 0;
    if (nvml_->reasons != nullptr && nvml_->reasons(device_, &reasons) == kSuccess)
      reading.at_limit = (reasons & (kSwPowerCap | kHwPowerBrake)) != 0;
    return reading;
  }

 private:
  static std::string_view remedy(int code) {
    switch (code) {
      case kNotSupported:
        return ": devices before Volta, and many virtual ones, do not count energy; use another device";
      case kNoPermission:
        return ": ask for the permission, or run as root";
      case kGpuIsLost:
        return ": the device must be reset; look at nvidia-smi and the system's log";
      default:
        return ": look at nvidia-smi";
    }
  }

  std::unique_ptr<Nvml> nvml_;
  NvmlDevice device_;
  std::string name_;
};

EnergySources missing(std::string why) { return {.counters = {}, .missing = {{EnergyKind::gpu, std::move(why)}}}; }

}  // namespace

std::string nvml_library() {
  const char* const given = std::getenv("SHARD8_NVML");
  return given != nullptr && *given != '\0' ? given : "libnvidia-ml.so.1";
}

EnergySources nvml_counter(const DeviceNames& device, const std::string& library) {
  auto nvml = std::make_unique<Nvml>(library);
  if (!nvml->error.empty()) return missing(nvml->error);
  NvmlDevice handle = nullptr;
  int code = nvml->by_uuid(device.uuid.c_str(), &handle);
  // CUDA has other names for slices of a device; its place on the bus is that of the whole device.
  if (code != kSuccess && !device.pci.empty()) code = nvml->by_pci(device.pci.c_str(), &handle);
  if (code != kSuccess)
    return missing(fmt::format("{} has no device {} ({}): {}: look at nvidia-smi -L", library, device.uuid, device.pci,
                               nvml->error_string(code)));
  unsigned mig = 0, pending = 0;
  if (nvml->mig_mode != nullptr && nvml->mig_mode(handle, &mig, &pending) == kSuccess && mig == kMigOn)
    return missing(
        fmt::format("device {} ({}) is divided (MIG), and its counter counts all slices together: for energy use a "
                    "whole device (nvidia-smi -mig 0)",
                    device.uuid, device.pci));
  auto counter = std::make_unique<NvmlCounter>(std::move(nvml), handle, device.uuid);
  if (std::string error = counter->read().error; !error.empty()) return missing(std::move(error));
  EnergySources sources;
  sources.counters.push_back(std::move(counter));
  return sources;
}

}  // namespace shard8::profile

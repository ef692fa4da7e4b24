// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

// Stands in for libnvidia-ml.so.1: devices GPU-0 and GPU-1 take 700 W at all times, the second one at its limit. The
// device on the bus at 0000:99:00.0 is divided, GPU-old counts no energy. SHARD8_FAKE_LOST is set: all are lost.
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace {

struct Device {
  const char* uuid;
  unsigned mig;
  bool counts, at_limit;
};
Device devices[] = {{"GPU-0", 0, true, false}, {"GPU-1", 0, true, true}, {"GPU-old", 0, false, false}};
Device divided{"MIG", 1, true, false};

constexpr int kSuccess = 0, kNotSupported = 3, kNotFound = 6, kLost = 15;

}  // namespace

extern "C" {
int nvmlInit_v2() { return kSuccess; }
int nvmlShutdown() { return kSuccess; }
const char* nvmlErrorString(int code) {
  return code == kLost ? "GPU is lost" : code == kNotSupported ? "Not Supported" : "Not Found";
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  for (Device& d : devices) {
    if (std::strcmp(d.uuid, uuid) != 0) continue;
    *device = &d;
    return kSuccess;
  }
  return kNotFound;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* pci, void** device) {
  if (std::strcmp(pci, "0000:99:00.0") != 0) return kNotFound;
  *device = &divided;
  return kSuccess;
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* mj) {
  if (std::getenv("SHARD8_FAKE_LOST") != nullptr) return kLost;
  if (!static_cast<Device*>(device)->counts) return kNotSupported;
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  *mj = static_cast<unsigned long long>(700e3 *
                                        (static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec)));
  return kSuccess;
}
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* mw) {
  *mw = 700000;
  return kSuccess;
}
int nvmlDeviceGetClockInfo(void*, int type, unsigned* mhz) {
  *mhz = type == 2 ? 2619 : 1980;
  return kSuccess;
}
int nvmlDeviceGetMigMode(void* device, unsigned* now, unsigned* pending) {
  *now = *pending = static_cast<Device*>(device)->mig;
  return kSuccess;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  *reasons = static_cast<Device*>(device)->at_limit ? 0x4 : 0x1;
  return kSuccess;
}
}

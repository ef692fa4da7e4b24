// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Loaded before all other libraries: once there is a file SHARD8_CLOCK_FILE, the system's clock is a day back. Other
// clocks are as they were.
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

namespace {

time_t back() {
  constexpr time_t kBack = 24 * 3600;
  const char* const file = std::getenv("SHARD8_CLOCK_FILE");
  return file != nullptr && ::access(file, F_OK) == 0 ? kBack : 0;
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const int result = next<int(clockid_t, timespec*)>("clock_gettime")(clock, now);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) now->tv_sec -= back();
  return result;
}

int gettimeofday(timeval* now, void* zone) noexcept {
  const int result = next<int(timeval*, void*)>("gettimeofday")(now, zone);
  now->tv_sec -= back();
  return result;
}

time_t time(time_t* out) noexcept {
  const time_t now = next<time_t(time_t*)>("time")(nullptr) - back();
  if (out != nullptr) *out = now;
  return now;
}

}  // extern "C"

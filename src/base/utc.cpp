// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "base/utc.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>

namespace shard8::base {
namespace {

/// Seconds for which this process has lived; nothing if the kernel does not tell.
std::optional<double> process_age() {
  std::ifstream file("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto name_end = text.rfind(')');  // the program's name may hold blanks
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream words(text.substr(name_end + 1));
  std::string word;
  for (int i = 0; i < 19; ++i) words >> word;  // fields 3 to 21 of proc(5)
  double ticks = 0;
  timespec boot{};
  if (!(words >> ticks) || clock_gettime(CLOCK_BOOTTIME, &boot) != 0) return std::nullopt;
  const double now = static_cast<double>(boot.tv_sec) + 1e-9 * static_cast<double>(boot.tv_nsec);
  const double age = now - ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  return age >= 0 ? std::optional(age) : std::nullopt;
}

}  // namespace

double unix_now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

double process_began() {
  const double now = unix_now();
  return now - process_age().value_or(0);
}

std::optional<double> last_write(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) return std::nullopt;
  return static_cast<double>(found.st_mtim.tv_sec) + 1e-9 * static_cast<double>(found.st_mtim.tv_nsec);
}

std::string utc_text(double unix_s) {
  const auto ms = std::llround(1e3 * unix_s);
  const std::time_t whole = static_cast<std::time_t>(ms / 1000);
  std::tm parts{};
  gmtime_r(&whole, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, ms % 1000);
}

std::optional<double> unix_of(std::string_view text) {
  std::tm parts{};
  const std::string whole(text);
  const char* const rest = strptime(whole.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) return std::nullopt;
  const char* const end = whole.c_str() + whole.size();
  double fraction = 0;
  const char* at = rest;
  if (*at == '.') {
    const auto [stop, status] = std::from_chars(rest, end, fraction, std::chars_format::fixed);
    if (status != std::errc()) return std::nullopt;
    at = stop;
  }
  if (std::string_view(at, static_cast<std::size_t>(end - at)) != "Z") return std::nullopt;
  return static_cast<double>(timegm(&parts)) + fraction;
}

}  // namespace shard8::base

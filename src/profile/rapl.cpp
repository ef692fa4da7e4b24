// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/energy_counter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
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

}  // namespace shard8::profile

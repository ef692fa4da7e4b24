// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/processor.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>

#include "base/text.hpp"

namespace shard8::profile {
namespace {

constexpr double kBusyShare = 0.05;
constexpr double kSlice_s = 0.004;

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

/// The second number of a schedstat is the time on a run queue in ns. All threads are 0 where the kernel does not
/// count.
std::optional<double> waited_for_cores() {
  double on_cores_ns = 0, waiting_ns = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc/self/task", error), end; !error && at != end;
       at.increment(error)) {
    std::ifstream file(at->path() / "schedstat");
    double on_core = 0, waiting = 0;
    if (!(file >> on_core >> waiting)) continue;  // the thread has ended
    on_cores_ns += on_core;
    waiting_ns += waiting;
  }
  if (on_cores_ns <= 0) return std::nullopt;
  return 1e-9 * waiting_ns;
}

double wall_s(const MeasuredUse& use) { return std::chrono::duration<double>(use.end.at - use.begin.at).count(); }

double of_threads(const MeasuredUse& use, double value) {
  const double all = wall_s(use) * use.threads;
  return all > 0 ? value / all : 0;
}

}  // namespace

ProcessorUse processor_use() {
  ProcessorUse use{.at = std::chrono::steady_clock::now()};
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) {
    use.cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    use.switches = usage.ru_nivcsw;
  }
  use.waited_s = waited_for_cores();
  return use;
}

double MeasuredUse::cpu() const { return of_threads(*this, end.cpu_s - begin.cpu_s); }

double MeasuredUse::switches_per_s() const {
  const double wall = wall_s(*this);
  return wall > 0 ? static_cast<double>(end.switches - begin.switches) / wall : 0;
}

double MeasuredUse::without_core() const {
  if (begin.waited_s && end.waited_s) return std::clamp(of_threads(*this, *end.waited_s - *begin.waited_s), 0.0, 1.0);
  const double in_slices = of_threads(*this, kSlice_s * static_cast<double>(end.switches - begin.switches));
  return std::clamp(std::min(1 - cpu(), in_slices), 0.0, 1.0);
}

int ProcessorFigures::worst_rank() const {
  return static_cast<int>(std::max_element(without_core.begin(), without_core.end()) - without_core.begin());
}

bool ProcessorFigures::busy() const {
  return std::any_of(without_core.begin(), without_core.end(), [](double share) { return share > kBusyShare; });
}

ProcessorFigures processor_over_ranks(const MeasuredUse& mine, const Gather& gather) {
  ProcessorFigures figures;
  const std::array values{mine.cpu(), mine.switches_per_s(), mine.without_core()};
  for_each_gathered(values, gather, [&](std::size_t i, std::span<const double> by_rank) {
    (i == 0   ? figures.cpu
     : i == 1 ? figures.switches_per_s
              : figures.without_core)
        .assign(by_rank.begin(), by_rank.end());
  });
  return figures;
}

std::string to_text(const ProcessorFigures& figures, const std::vector<std::string>& hosts) {
  const auto [least, most] = std::minmax_element(figures.cpu.begin(), figures.cpu.end());
  const auto worst = static_cast<std::size_t>(figures.worst_rank());
  const std::string text = fmt::format(
      "\nprocessor: CPU time / (threads x wall time) {:.2f} to {:.2f}; longest without a core: rank {} ({}), {:.1f} % "
      "of "
      "its time, {:.0f} involuntary switches/s\n",
      *least, *most, worst, hosts.at(worst), 100 * figures.without_core[worst], figures.switches_per_s[worst]);
  return text + busy_text(figures, hosts);
}

std::string busy_text(const ProcessorFigures& figures, const std::vector<std::string>& hosts) {
  if (!figures.busy()) return {};
  return fmt::format(
      "warning: the machine was busy: {} of {} had work and no core for more than {:g} % of the time{}: take no "
      "figures from this run\n",
      std::count_if(figures.without_core.begin(), figures.without_core.end(),
                    [](double share) { return share > kBusyShare; }),
      base::count(static_cast<std::int64_t>(figures.without_core.size()), "rank", "ranks"), 100 * kBusyShare,
      hosts.size() > 1 ? "; other ranks waited for them, which looks like exposed communication" : "");
}

}  // namespace shard8::profile

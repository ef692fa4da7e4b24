// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/processor.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/arithmetic.hpp"
#include "base/text.hpp"

namespace shard8::profile {
namespace {

constexpr double kSlice_s = 0.004;
constexpr double kResolved_s = 0.02;  ///< of the CPU time of others: two ticks of /proc/stat

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

/// The CPUs that a thread of this process may use.
CpuSet allowed_cpus() {
  CpuSet all;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc/self/task", error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename();
    pid_t thread = 0;
    std::from_chars(name.data(), name.data() + name.size(), thread);
    all.add(affinity(thread));
  }
  return all;
}

/// Lines of /proc/stat: "cpu3 USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL ...", in ticks. "cpu " is the sum.
CpuUse cpu_use() {
  CpuUse use{.node = node_identity()};
  const CpuSet allowed = allowed_cpus();
  std::ifstream file("/proc/stat");
  double ticks = 0;
  for (std::string line; std::getline(file, line) && line.starts_with("cpu");) {
    std::istringstream in(line.substr(3));
    std::size_t cpu = 0;
    double user = 0, nice = 0, system = 0, idle = 0, io_wait = 0, irq = 0, soft_irq = 0, steal = 0;
    if (line.starts_with("cpu ") || !(in >> cpu >> user >> nice >> system) || !allowed.contains(cpu)) continue;
    in >> idle >> io_wait >> irq >> soft_irq >> steal;  // very old systems have fewer: then 0
    use.cpus.push_back(static_cast<int>(cpu));
    ticks += user + nice + system + steal;
  }
  use.busy_s = ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return use;
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
  use.cpus = cpu_use();
  return use;
}

bool MeasuredUse::after_step(bool last) {
  if (on_cpus) speed.sample();
  if (last) end = processor_use();
  return last;
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

namespace {

/// The lowest rank with the largest value.
int rank_of_largest(const std::vector<double>& by_rank) {
  return static_cast<int>(std::max_element(by_rank.begin(), by_rank.end()) - by_rank.begin());
}

}  // namespace

int ProcessorFigures::worst_rank() const { return rank_of_largest(without_core); }
int ProcessorFigures::most_shared_rank() const { return rank_of_largest(others); }
int ProcessorFigures::most_slowed_rank() const { return rank_of_largest(slowed); }

bool ProcessorFigures::busy() const {
  return std::any_of(without_core.begin(), without_core.end(), [](double share) { return share > kWithoutCore; }) ||
         std::any_of(others.begin(), others.end(), [](double share) { return share > kOthers; });
}

namespace {

/// What ranks tell each other of their CPUs.
enum Told : std::size_t { kCpu, kSwitches, kWithout, kPlaces, kCpuSeconds, kAllBusy, kOwnCpu, kWork, kSlowed, kTold };

/// A number for the CPUs that a rank may use; 0 if others there are not known, or do not matter. A double holds it.
double places(const MeasuredUse& use) {
  const CpuUse& cpus = use.end.cpus;
  if (!use.on_cpus || cpus.cpus.empty() || use.begin.cpus.cpus != cpus.cpus) return 0;
  std::uint64_t hash = base::mix64(std::hash<std::string>{}(cpus.node));
  for (const int cpu : cpus.cpus) hash = base::mix64(hash ^ static_cast<std::uint64_t>(cpu));
  return static_cast<double>((hash >> 12) + 1);
}

/// ProcessorFigures::others, of what ranks told.
std::vector<double> others_of(const std::array<std::vector<double>, kTold>& told) {
  const std::vector<double>& where = told[kPlaces];
  std::map<double, double> of_job;  // seconds, by places
  for (std::size_t r = 0; r < where.size(); ++r) of_job[where[r]] += told[kOwnCpu][r];
  std::vector<double> others(where.size());
  for (std::size_t r = 0; r < where.size(); ++r) {
    if (where[r] == 0 || told[kCpuSeconds][r] <= 0) continue;
    const double of_others = told[kAllBusy][r] - of_job.at(where[r]) - kResolved_s;
    others[r] = std::clamp(of_others / told[kCpuSeconds][r], 0.0, 1.0);
  }
  return others;
}

}  // namespace

ProcessorFigures processor_over_ranks(const MeasuredUse& mine, const Gather& gather) {
  std::array<double, kTold> values{};
  values[kCpu] = mine.cpu();
  values[kSwitches] = mine.switches_per_s();
  values[kWithout] = mine.without_core();
  values[kPlaces] = places(mine);
  values[kCpuSeconds] = wall_s(mine) * static_cast<double>(mine.end.cpus.cpus.size());
  values[kAllBusy] = mine.end.cpus.busy_s - mine.begin.cpus.busy_s;
  values[kOwnCpu] = mine.end.cpu_s - mine.begin.cpu_s;
  if (mine.on_cpus) {
    values[kWork] = mine.speed.mean_s();
    values[kSlowed] = mine.speed.slowed();
  }
  std::array<std::vector<double>, kTold> told;
  for_each_gathered(values, gather, [&](std::size_t i, std::span<const double> by_rank) {
    told[i].assign(by_rank.begin(), by_rank.end());
  });
  return {.cpu = told[kCpu],
          .switches_per_s = told[kSwitches],
          .without_core = told[kWithout],
          .others = others_of(told),
          .work_s = told[kWork],
          .slowed = told[kSlowed]};
}

std::string to_text(const ProcessorFigures& figures, const std::vector<std::string>& hosts) {
  const auto [least, most] = std::minmax_element(figures.cpu.begin(), figures.cpu.end());
  const auto worst = static_cast<std::size_t>(figures.worst_rank());
  const auto shared = static_cast<std::size_t>(figures.most_shared_rank());
  std::string text = fmt::format(
      "\nprocessor: CPU time / (threads x wall time) {:.2f} to {:.2f}; longest without a core: rank {} ({}), {:.1f} % "
      "of its time, {:.0f} involuntary switches/s",
      *least, *most, worst, hosts.at(worst), 100 * figures.without_core[worst], figures.switches_per_s[worst]);
  if (figures.others[shared] > 0)
    text += fmt::format("; other programs: {:.1f} % of the time of the CPUs of rank {} ({})",
                        100 * figures.others[shared], shared, hosts.at(shared));
  if (const auto slowed = static_cast<std::size_t>(figures.most_slowed_rank()); figures.slowed[slowed] > 0)
    text += fmt::format("; slowed most: the core of rank {} ({}), by {:.1f} %", slowed, hosts.at(slowed),
                        100 * figures.slowed[slowed]);
  text += '\n';
  return figures.busy() ? text + fmt::format("warning: {}\n", busy_text(figures, hosts)) : text;
}

std::string busy_text(const ProcessorFigures& figures, const std::vector<std::string>& hosts) {
  if (!figures.busy()) return {};
  const auto above = [](const std::vector<double>& shares, double limit) {
    return std::count_if(shares.begin(), shares.end(), [limit](double share) { return share > limit; });
  };
  const auto kept = above(figures.without_core, kWithoutCore), shared = above(figures.others, kOthers);
  const std::string ranks = base::count(static_cast<std::int64_t>(hosts.size()), "rank", "ranks");
  std::string text;
  if (kept > 0)
    text =
        fmt::format("{} of {} had work and no core for more than {:g} % of the time{}", kept, ranks, 100 * kWithoutCore,
                    hosts.size() > 1 ? "; other ranks waited for them, which looks like exposed communication" : "");
  if (shared > 0)
    text += fmt::format("{}other programs took more than {:g} % of the CPUs of {} of {}", text.empty() ? "" : "; ",
                        100 * kOthers, shared, ranks);
  return fmt::format("the machine was busy: {}: take no figures from this run", text);
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kMost = 4;  ///< times the least that a sample may count

/// Eight chains of shifts and additions. The compiler may not shorten them: it cannot see what the empty assembly does.
[[gnu::noinline]] std::uint64_t integer_work() {
  std::uint64_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8;
  for (int i = 0; i < 2000; ++i) {
    a += a << 3, b ^= b >> 5, c += c << 2, d ^= d >> 9;
    e += e << 1, f ^= f >> 3, g += g << 3, h ^= h >> 6;
    asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f), "+r"(g), "+r"(h));
  }
  return a ^ b ^ c ^ d ^ e ^ f ^ g ^ h;
}

using Vector [[gnu::vector_size(32)]] = float;
constexpr std::size_t kVectors = 256;  ///< 8 KiB, so that the first cache has them
constexpr std::size_t kChains = 8;     ///< as many as hide the latency of a multiplication and addition

/// Eight sums of vectors, each multiplied by `factor` before a vector from the first cache is added to it. The units
/// that compute it are those that matrix products use.
[[gnu::noinline]] float vector_work(const std::array<Vector, kVectors>& values, float factor) {
  std::array<Vector, kChains> sums{};
  for (int repeat = 0; repeat < 40; ++repeat)
    for (std::size_t i = 0; i < kVectors; i += kChains)
      for (std::size_t k = 0; k < kChains; ++k) sums[k] = sums[k] * factor + values[i + k];
  float sum = 0;
  for (const Vector& v : sums) sum += v[0];
  return sum;
}

template <class Work>
double seconds_of(const Work& work) {
  const Clock::time_point begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

CoreSpeed::Work CoreSpeed::work() {
  static const auto values = [] {
    std::array<Vector, kVectors> all{};
    for (Vector& v : all) v = v + 1.0f;
    return all;
  }();
  return {.integers_s = seconds_of([] { [[maybe_unused]] const volatile std::uint64_t result = integer_work(); }),
          .vectors_s = seconds_of([] { [[maybe_unused]] const volatile float result = vector_work(values, 0.5f); })};
}

void CoreSpeed::sample() {
  if (samples_ > 0 && Clock::now() - last_ < kBetween) return;
  const Work first = work(), second = work();
  add({std::min(first.integers_s, second.integers_s), std::min(first.vectors_s, second.vectors_s)});
  last_ = Clock::now();
}

void CoreSpeed::add(const Work& work) {
  const std::array seconds{work.integers_s, work.vectors_s};
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    least_s_[i] = samples_ > 0 ? std::min(least_s_[i], seconds[i]) : seconds[i];
    sum_s_[i] += std::min(seconds[i], kMost * least_s_[i]);
  }
  ++samples_;
}

double CoreSpeed::mean_s() const { return samples_ > 0 ? (sum_s_[0] + sum_s_[1]) / static_cast<double>(samples_) : 0; }

double CoreSpeed::slowed() const {
  double most = 0;
  for (std::size_t i = 0; i < sum_s_.size(); ++i)
    if (least_s_[i] > 0) most = std::max(most, sum_s_[i] / static_cast<double>(samples_) / least_s_[i] - 1);
  return most;
}

void CpuSet::add(const CpuSet& other) {
  for (std::size_t i = 0; i < words.size(); ++i) words[i] |= other.words[i];
}

std::vector<int> CpuSet::numbers() const {
  std::vector<int> cpus;
  for (std::size_t cpu = 0; cpu < 64 * words.size(); ++cpu)
    if (contains(cpu)) cpus.push_back(static_cast<int>(cpu));
  return cpus;
}

CpuSet affinity(pid_t thread) {
  CpuSet cpus;
  if (::sched_getaffinity(thread, sizeof cpus.words, reinterpret_cast<cpu_set_t*>(cpus.words.data())) != 0) return {};
  return cpus;
}

std::string node_identity() {
  std::string id;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::getline(file, id);
  return id;
}

}  // namespace shard8::profile

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "profile/energy.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <utility>

namespace shard8::profile {
namespace {

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

double cpu_of_this_thread() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

void Sampled::add(double value) {
  min = samples > 0 ? std::min(min, value) : value;
  max = samples > 0 ? std::max(max, value) : value;
  sum += value;
  ++samples;
}

EnergyMeter::EnergyMeter(std::vector<std::unique_ptr<EnergyCounter>> counters, std::chrono::milliseconds interval) {
  for (auto& counter : counters) {
    State state;
    state.counted.kind = counter->kind();
    state.counted.name = counter->name();
    const EnergyReading first = counter->read();
    state.counted.failed = first.error;
    state.counts = first.counts;
    state.start = state.sampled = first.at;
    state.counter = std::move(counter);
    states_.push_back(std::move(state));
  }
  if (interval.count() == 0 || states_.empty()) return;
  sigset_t all{}, before{};
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the other threads
  thread_ = std::thread([this, interval] {
    std::unique_lock request(requests_);
    while (true) {
      wake_.wait_for(request, interval, [this] { return stops_ || wanted_; });
      if (stops_) return;
      request.unlock();
      {
        const std::scoped_lock lock(mutex_);
        read_all();
        thread_cpu_s_ = cpu_of_this_thread();
      }
      request.lock();
      wanted_ = false;
      over_.notify_all();
    }
  });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

EnergyMeter::~EnergyMeter() {
  {
    const std::scoped_lock lock(requests_);
    stops_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void EnergyMeter::read(State& state) {
  CountedEnergy& counted = state.counted;
  if (!counted.failed.empty()) return;
  const EnergyReading now = state.counter->read();
  if (!now.error.empty()) {
    counted.failed = now.error;
    return;
  }
  std::uint64_t more = now.counts - state.counts;
  if (now.counts < state.counts) {
    const std::uint64_t range = state.counter->range();
    if (range < state.counts) {
      counted.failed = fmt::format(
          "the counter {} went back from {} to {}: the driver was loaded anew, or the device was reset; run again",
          counted.name, state.counts, now.counts);
      return;
    }
    more = now.counts + (range - state.counts);
  }
  state.counts = now.counts;
  counted.run_joules += state.counter->unit_j() * static_cast<double>(more);
  counted.run_seconds = seconds_between(state.start, now.at);
  if (steps_ != Steps::measured) {
    state.sampled = now.at;
    state.sampled_j = counted.run_joules;
    return;
  }
  counted.joules = counted.run_joules - state.begin_j;
  counted.seconds = seconds_between(state.begin, now.at);
  if (now.sm_mhz) counted.sm_mhz.add(*now.sm_mhz);
  if (now.memory_mhz) counted.memory_mhz.add(*now.memory_mhz);
  if (now.at_limit) counted.at_limit.add(*now.at_limit ? 1 : 0);
  if (now.limit_w) counted.limit_w = std::min(counted.limit_w.value_or(*now.limit_w), *now.limit_w);
  const double since = seconds_between(state.sampled, now.at);
  if (since < kShortest_s) return;
  counted.watts.add((counted.run_joules - state.sampled_j) / since);
  state.sampled = now.at;
  state.sampled_j = counted.run_joules;
}

void EnergyMeter::read_all() {
  for (State& state : states_) read(state);
}

void EnergyMeter::sample() {
  const std::scoped_lock lock(mutex_);
  read_all();
}

void EnergyMeter::begin() {
  const std::scoped_lock lock(mutex_);
  read_all();
  for (State& state : states_) {
    state.begin = state.sampled;
    state.begin_j = state.sampled_j;
  }
  steps_ = Steps::measured;
}

void EnergyMeter::end() {
  const std::scoped_lock lock(mutex_);
  if (steps_ != Steps::measured) return;
  read_all();
  steps_ = Steps::after;
}

void EnergyMeter::pause() {
  const std::scoped_lock lock(mutex_);
  read_all();
  if (steps_ != Steps::measured) return;
  for (State& state : states_) {
    state.paused_j = state.counted.run_joules;
    state.paused_s = state.counted.run_seconds;
  }
  steps_ = Steps::paused;
}

void EnergyMeter::resume() {
  const std::scoped_lock lock(mutex_);
  read_all();
  if (steps_ != Steps::paused) return;
  for (State& state : states_) {
    const std::chrono::duration<double> pause(state.counted.run_seconds - state.paused_s);
    state.begin += std::chrono::duration_cast<std::chrono::steady_clock::duration>(pause);
    state.begin_j += state.counted.run_joules - state.paused_j;
  }
  steps_ = Steps::measured;
}

void EnergyMeter::start_reading() {
  if (!thread_.joinable()) return sample();
  {
    const std::scoped_lock lock(requests_);
    wanted_ = true;
  }
  wake_.notify_all();
}

std::optional<double> EnergyMeter::joules(const std::vector<EnergyKind>& counted) {
  {
    std::unique_lock request(requests_);
    over_.wait(request, [this] { return !wanted_; });
  }
  const std::scoped_lock lock(mutex_);
  double sum = 0;
  for (const State& state : states_) {
    if (std::find(counted.begin(), counted.end(), state.counted.kind) == counted.end()) continue;
    if (!state.counted.failed.empty()) return std::nullopt;
    sum += state.counted.run_joules;
  }
  return sum;
}

std::vector<CountedEnergy> EnergyMeter::counted() {
  const std::scoped_lock lock(mutex_);
  read_all();
  std::vector<CountedEnergy> all;
  for (const State& state : states_) {
    all.push_back(state.counted);
    CountedEnergy& counted = all.back();
    if (counted.failed.empty() && counted.run_joules == 0 && counted.run_seconds >= kStandsStill_s)
      counted.failed =
          fmt::format("the counter {} stood still for {:.1f} s: nothing counts there, as in some virtual machines",
                      counted.name, counted.run_seconds);
    if (steps_ != Steps::after) all.back().joules = all.back().seconds = 0;
  }
  return all;
}

double EnergyMeter::thread_cpu_s() const {
  const std::scoped_lock lock(mutex_);
  return thread_cpu_s_;
}

}  // namespace shard8::profile

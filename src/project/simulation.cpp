// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "project/simulation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "base/error.hpp"

namespace shard8::project {

using machine::kLoads;
using machine::Load;
using profile::Part;
using profile::Phase;

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kTick = 1e-12;  ///< seconds: times that differ by less are equal

bool communicates(const Task& task) { return task.load >= Load::collective; }

/// Collectives that run at once over one link may demand more than all of it: each has a demand d, the share of its
/// time in which the link bounds it. Then each takes 1 + d·x times as long, with the x for which together they use the
/// whole link: Σ d/(1 + d·x) = 1. Returns x, which is 0 for demands that sum to 1 or less. Newton's method, from below.
double longer(std::span<const double> demands) {
  double x = 0;
  for (int i = 0; i < 100; ++i) {
    double over = -1, slope = 0;
    for (const double d : demands) {
      over += d / (1 + d * x);
      slope += d * d / ((1 + d * x) * (1 + d * x));
    }
    if (over <= 1e-12) break;
    x += over / slope;
  }
  return x;
}

/// Tasks of consecutive steps have one number: step · tasks of a step + index.
class Run {
 public:
  Run(const Step& step, const SlowDowns& slow, int repeats)
      : step_(step), slow_(slow), count_(static_cast<int>(step.tasks.size())), repeats_(repeats) {
    const auto all = static_cast<std::size_t>(count_) * static_cast<std::size_t>(repeats);
    start_.assign(all, kNever);
    end_.assign(all, kNever);
    began_issuing_.assign(static_cast<std::size_t>(repeats), kNever);
    began_issuing_[0] = 0;
    double host = step.issue_s;
    for (int i = 0; i < count_; ++i) {
      const Task& t = step.tasks[static_cast<std::size_t>(i)];
      issued_.push_back(host += t.issue_s);
      compute_before_.push_back(compute_count_);
      if (t.queue == kCompute) ++compute_count_;
      if (queues_.size() <= t.queue) queues_.resize(t.queue + std::size_t{1});
      queues_[t.queue].tasks.push_back(i);
    }
    result_.task_s.assign(static_cast<std::size_t>(count_), 0);
    result_.exposed_s.assign(static_cast<std::size_t>(count_), 0);
  }

  Simulated last() {
    for (;;) {
      double next = kNever;  // the next time at which a task may start, though none ends
      while (start_tasks(next)) {
      }
      const double step = time_to_next(next);
      if (step == kNever) break;
      advance(step);
    }
    for (const QueueState& q : queues_)
      SHARD8_REQUIRE(q.number(count_) >= count_ * repeats_ || q.tasks.empty(), "a simulated queue stands still");
    result_.times.total = finished_ - last_began_;
    return std::move(result_);
  }

 private:
  struct QueueState {
    std::vector<int> tasks;  ///< of a step
    int step = 0;
    std::size_t at = 0;
    bool running = false;
    double left = 0;  ///< seconds of the running task, alone
    double free = 0;  ///< when the task before ended
    /// Number of the next task, or of the running one.
    int number(int count) const { return tasks.empty() ? 0 : step * count + (at < tasks.size() ? tasks[at] : count); }
  };

  const Task& task(int number) const { return step_.tasks[static_cast<std::size_t>(number % count_)]; }
  bool measured(int number) const { return number / count_ == repeats_ - 1; }

  /// The number of the task of a wait; −1: it belongs to a step before the first.
  int waited(int step, const Wait& wait) const {
    if (wait.task >= 0) return step * count_ + wait.task;
    return step == 0 ? -1 : (step - 1) * count_ + step_.ahead[static_cast<std::size_t>(-1 - wait.task)];
  }

  /// Whether the next task of a queue may start now. `next` becomes the earliest later time at which it may, if that is
  /// known.
  bool may_start(int number, double& next) const {
    const Task& t = task(number);
    const int step = number / count_;
    const double begun = began_issuing_[static_cast<std::size_t>(step)];
    if (begun == kNever) return false;
    if (t.queue != kCompute &&
        step * compute_count_ + compute_before_[static_cast<std::size_t>(number % count_)] > compute_done_)
      return false;
    for (int w = t.first_wait; w < t.first_wait + t.waits; ++w) {
      const Wait& wait = step_.waits[static_cast<std::size_t>(w)];
      const int other = waited(step, wait);
      if (other < 0 || end_[static_cast<std::size_t>(other)] <= now_ + kTick) continue;
      const QueueState& of = queues_[task(other).queue];
      if (wait.share >= 1 || !of.running || of.number(count_) != other) return false;
      const double alone = task(other).seconds * (1 - static_cast<double>(wait.share));
      if (of.left > alone + kTick) {
        next = std::min(next, now_ + (of.left - alone) * slowness(of));
        return false;
      }
    }
    const double issued = begun + issued_[static_cast<std::size_t>(number % count_)];
    if (issued > now_ + kTick) {
      next = std::min(next, issued);
      return false;
    }
    return true;
  }

  /// Starts every task that may start now. Returns whether a task ended at once.
  bool start_tasks(double& next) {
    next = kNever;
    bool ended = false;
    for (QueueState& q : queues_) {
      if (q.running || q.tasks.empty() || q.step == repeats_) continue;
      const int number = q.number(count_);
      if (!may_start(number, next)) continue;
      if (task(number).queue == kCompute) count_idle(q, number);
      start_[static_cast<std::size_t>(number)] = now_;
      q.left = task(number).seconds;
      q.running = true;
      if (q.left <= kTick) {
        end(q);
        ended = true;
      }
    }
    return ended;
  }

  /// What the compute queue waited for before a task, which starts now.
  void count_idle(const QueueState& q, int number) {
    if (!measured(number)) return;
    const double idle = now_ - q.free;
    if (idle <= kTick) return;
    const Task& t = task(number);
    const int step = number / count_;
    int last = -1;
    double until = q.free;
    for (int w = t.first_wait; w < t.first_wait + t.waits; ++w) {
      const int other = waited(step, step_.waits[static_cast<std::size_t>(w)]);
      if (other < 0) continue;
      const double over = std::min(now_, end_[static_cast<std::size_t>(other)]);
      if (over > until) {
        until = over;
        last = other;
      }
    }
    const double waited_s = until - q.free;
    if (last >= 0 && waited_s > kTick) {
      result_.exposed_s[static_cast<std::size_t>(last % count_)] += waited_s;
      const Task& other = task(last);
      if (other.waiting == Waiting::exchange)
        add(t.phase, static_cast<int>(Part::tensor_comm), other.exchange, waited_s);
      else
        add(other.waiting == Waiting::gather ? Phase::gather_wait : Phase::reduce_wait, -1, profile::kExchanges,
            waited_s);
    }
    const double host = idle - waited_s;
    if (host <= kTick) return;
    result_.host_s += host;
    add(t.phase, t.part, t.exchange, host);
  }

  void add(Phase phase, int part, int exchange, double seconds) {
    result_.times.phase[static_cast<std::size_t>(phase)] += seconds;
    if (part < 0 || (phase != Phase::forward && phase != Phase::backward)) return;
    result_.times.part[phase == Phase::forward ? 0 : 1][static_cast<std::size_t>(part)] += seconds;
    if (part == static_cast<int>(Part::tensor_comm))
      result_.times.exchange[static_cast<std::size_t>(exchange)] += seconds;
  }

  /// Seconds that pass while a running task does one second of its work.
  double slowness(const QueueState& of) const {
    const Task& t = task(of.number(count_));
    double slow = 1;
    std::array<double, kMostQueues> demands{};
    std::size_t sharing = 0;
    std::array<bool, kLoads> counted{};
    for (const QueueState& q : queues_) {
      if (!q.running) continue;
      const Task& other = task(q.number(count_));
      if (t.link != Link::none && other.link == t.link) demands[sharing++] = static_cast<double>(other.demand);
      if (&q == &of || counted[static_cast<std::size_t>(other.load)]) continue;
      counted[static_cast<std::size_t>(other.load)] = true;
      slow *= slow_[static_cast<std::size_t>(t.load)][static_cast<std::size_t>(other.load)];
    }
    return slow * (1 + static_cast<double>(t.demand) * longer(std::span(demands).first(sharing)));
  }

  double time_to_next(double next) const {
    double step = next == kNever ? kNever : std::max(0.0, next - now_);
    for (const QueueState& q : queues_)
      if (q.running) step = std::min(step, q.left * slowness(q));
    return step;
  }

  void advance(double seconds) {
    std::array<double, kMostQueues> slow{};
    std::array<int, kLoads> running{};
    bool communicating = false;
    for (std::size_t i = 0; i < queues_.size(); ++i) {
      if (!queues_[i].running) continue;
      slow[i] = slowness(queues_[i]);
      ++running[static_cast<std::size_t>(task(queues_[i].number(count_)).load)];
      communicating |= communicates(task(queues_[i].number(count_)));
    }
    now_ += seconds;
    for (std::size_t a = 0; a < running.size(); ++a)
      for (std::size_t b = 0; running[a] > 0 && b < running.size(); ++b)
        result_.met[a][b] |= running[b] > (a == b ? 1 : 0);
    if (communicating && compute_step() == repeats_ - 1) result_.in_flight_s += seconds;
    for (std::size_t i = 0; i < queues_.size(); ++i) {
      QueueState& q = queues_[i];
      if (!q.running) continue;
      q.left -= seconds / slow[i];
      if (q.left <= kTick) end(q);
    }
  }
  int compute_step() const { return queues_[kCompute].step; }

  /// The running task of a queue ends now.
  void end(QueueState& q) {
    const int number = q.number(count_);
    const Task& t = task(number);
    end_[static_cast<std::size_t>(number)] = now_;
    q.running = false;
    q.free = now_;
    const double took = now_ - start_[static_cast<std::size_t>(number)];
    if (measured(number)) {
      result_.task_s[static_cast<std::size_t>(number % count_)] = took;
      if (t.queue == kCompute) {
        add(t.phase, t.part, t.exchange, took);
        if (communicates(t)) {
          result_.exposed_s[static_cast<std::size_t>(number % count_)] += took;
        } else {
          result_.computing_s += took;
          result_.slowed_s += took - t.seconds;
        }
      }
    }
    if (++q.at == q.tasks.size()) {
      q.at = 0;
      ++q.step;
      if (t.queue == kCompute) {
        if (q.step < repeats_) began_issuing_[static_cast<std::size_t>(q.step)] = now_;
        if (q.step == repeats_ - 1) last_began_ = now_;
        if (q.step == repeats_) finished_ = now_;
      }
    }
    if (t.queue == kCompute) ++compute_done_;
  }

  const Step& step_;
  const SlowDowns& slow_;
  int count_, repeats_;
  std::vector<double> issued_;  ///< of each task, since the host began to issue the step
  std::vector<int> compute_before_;
  int compute_count_ = 0, compute_done_ = 0;
  std::vector<QueueState> queues_{1};
  std::vector<double> start_, end_, began_issuing_;
  double now_ = 0, last_began_ = 0, finished_ = 0;
  Simulated result_;
};

}  // namespace

SlowDowns slow_downs(const machine::Machine& machine, double strength) {
  SlowDowns all{};
  for (int slow = 0; slow < kLoads; ++slow)
    for (int by = 0; by < kLoads; ++by)
      all[static_cast<std::size_t>(slow)][static_cast<std::size_t>(by)] =
          std::pow(machine.slowed_by(static_cast<Load>(slow), static_cast<Load>(by)), strength);
  return all;
}

Simulated simulate(const Step& step, const SlowDowns& slow, int repeats) {
  SHARD8_REQUIRE(repeats >= 1 && !step.tasks.empty(), "{} repeats of {} tasks", repeats, step.tasks.size());
  return Run(step, slow, repeats).last();
}

}  // namespace shard8::project

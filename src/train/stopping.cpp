// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/stopping.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/stop_signals.hpp"
#include "comm/agree.hpp"
#include "train/trainer.hpp"

namespace shard8::train {

TimeLimit reached(const TimeLimits& limits, const ClockTimes& now, const LongestTimes& longest) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const double margin = limits.margin_s.value_or(kMarginFactor * (longest.step + longest.checkpoint_write));
  double run = kNever, job = kNever;  // seconds left
  if (limits.run_s) run = *limits.run_s - now.steady;
  if (limits.job_end) {
    const double at_start = *limits.job_end - limits.start.since_1970;
    job = std::min(*limits.job_end - now.since_1970, at_start - (now.steady - limits.start.steady));
  }
  if (std::min(run, job) > margin) return TimeLimit::none;
  return run <= job ? TimeLimit::run : TimeLimit::job_end;
}

namespace {

constexpr StopReason kReasons[] = {
    {},
    {StopReason::Kind::stop_after},
    {StopReason::Kind::time_limit},
    {StopReason::Kind::job_end},
    {StopReason::Kind::signal, SIGHUP},
    {StopReason::Kind::signal, SIGINT},
    {StopReason::Kind::signal, SIGUSR1},
    {StopReason::Kind::signal, SIGTERM},
};
static_assert(std::size(kReasons) <= Trainer::kStopRequests);

}  // namespace

std::uint64_t code_of(const StopReason& reason) {
  const auto* const found = std::find(std::begin(kReasons), std::end(kReasons), reason);
  SHARD8_REQUIRE(found != std::end(kReasons), "no run stops by signal {}", reason.signal);
  return static_cast<std::uint64_t>(found - std::begin(kReasons));
}

StopReason reason_of(std::uint64_t code) { return kReasons[code]; }

std::string name_of(const StopReason& reason) {
  switch (reason.kind) {
    case StopReason::Kind::none:
      return "";
    case StopReason::Kind::stop_after:
      return "run.stop_after";
    case StopReason::Kind::time_limit:
      return "run.time_limit_min";
    case StopReason::Kind::job_end:
      return "SLURM_JOB_END_TIME";
    case StopReason::Kind::signal:
      return base::signal_name(reason.signal);
  }
  return "?";
}

std::optional<double> job_end(const char* text, double now) {
  const std::string_view all = text == nullptr ? "" : text;
  if (all.empty()) return std::nullopt;
  std::int64_t end = 0;
  const auto [rest, error] = std::from_chars(all.data(), all.data() + all.size(), end);
  if (error != std::errc() || rest != all.data() + all.size())
    base::fail(base::ExitCode::environment,
               "SLURM_JOB_END_TIME is '{}': it must be a whole number of seconds since 1970; unset it to run without",
               all);
  if (static_cast<double>(end) <= now) return std::nullopt;
  return static_cast<double>(end);
}

Stopping::Stopping(const deck::RunConfig& run, Sources sources)
    : sources_(std::move(sources)), stop_after_(run.stop_after) {
  constexpr double kSecondsPerMinute = 60;
  if (run.time_limit_min > 0) limits_.run_s = kSecondsPerMinute * run.time_limit_min;
  limits_.job_end = sources_.job_end;
  if (run.margin_s > 0) limits_.margin_s = run.margin_s;
  limits_.start = sources_.clock();
  begin_step();
}

void Stopping::begin_step() { step_began_ = sources_.clock().steady; }

StopReason Stopping::end_step() {
  const ClockTimes now = sources_.clock();
  ++steps_;
  longest_.step = std::max(longest_.step, now.steady - step_began_);
  if (const StopReason reason = urgent(now)) return reason;
  if (stop_after_ > 0 && steps_ >= stop_after_) return {StopReason::Kind::stop_after};
  return {};
}

StopReason Stopping::within_validation() const { return urgent(sources_.clock()); }

StopReason Stopping::urgent(const ClockTimes& now) const {
  if (const int signal = sources_.signal ? sources_.signal() : 0; signal != 0)
    return {StopReason::Kind::signal, signal};
  switch (reached(limits_, now, longest_)) {
    case TimeLimit::run:
      return {StopReason::Kind::time_limit};
    case TimeLimit::job_end:
      return {StopReason::Kind::job_end};
    case TimeLimit::none:
      break;
  }
  return {};
}

void Stopping::checkpoint_written(double seconds) {
  longest_.checkpoint_write = std::max(longest_.checkpoint_write, seconds);
}

namespace {

/// The message for a step whose loss or gradient norm is not finite. The message says what to try.
std::string divergence(const StepResult& r, bool fp32) {
  const auto shown = [](double x) { return std::isnan(x) ? std::string("nan") : fmt::format("{}", x); };
  std::string what;
  if (!std::isfinite(r.loss)) what = "loss " + shown(r.loss);
  const bool both = !what.empty() && !std::isfinite(r.gradient_norm);
  if (!std::isfinite(r.gradient_norm))
    what += (both ? " and gradient norm " : "gradient norm ") + shown(r.gradient_norm);
  what += both ? " are not finite" : " is not finite";
  if (r.step == 0)
    return fmt::format(
        "step 0: {} before any update: look at model.init_file, model.init_std, model.norm_eps and model.rope_theta{}",
        what, fp32 ? "" : ", or try precision.compute = fp32");
  return fmt::format("step {}: {}: training diverged; try a lower optimizer.lr (now {}), a longer optimizer.warmup{}",
                     r.step, what, r.learning_rate,
                     fp32 ? " or a larger optimizer.eps" : ", a larger optimizer.eps or precision.compute = fp32");
}

LoopResult trained(Trainer& trainer, const Steps& steps, const LoopHooks& hooks) {
  LoopResult loop;
  for (std::int64_t s = steps.first; s < steps.end; ++s) {
    if (s > steps.first && hooks.stops_before && hooks.stops_before(s)) {
      loop.why = Stop::requested;
      trainer.settle();
      loop.saved = hooks.save && hooks.save(s);
      break;
    }
    if (hooks.before) hooks.before(s);
    StepResult& result = loop.last = trainer.step(s);
    ++loop.steps;
    const bool diverged = !std::isfinite(result.loss) || !std::isfinite(result.gradient_norm);
    if (hooks.validate && !diverged) result.validation = hooks.validate(result);
    if (result.validation) result.stop_request = std::max(result.stop_request, result.validation->stop_request);
    if (hooks.after) hooks.after(result);
    if (diverged)
      throw comm::AgreedError(base::ExitCode::failed,
                              divergence(result, trainer.setup().dims.compute == tensor::DType::fp32), trainer.ranks());
    if (hooks.between) hooks.between(s + 1);
  }
  return loop;
}

}  // namespace

LoopResult train(Trainer& trainer, const Steps& steps, const LoopHooks& hooks) {
  try {
    return trained(trainer, steps, hooks);
  } catch (const comm::AgreedError&) {
    try {
      if (hooks.failed) hooks.failed();
    } catch (const comm::AgreedError&) {  // the first error says more
    }
    throw;
  }
}

}  // namespace shard8::train

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "comm/agree.hpp"

namespace shard8::train {

namespace {

/// The message for a step whose loss or gradient norm is not finite. It says what to try.
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

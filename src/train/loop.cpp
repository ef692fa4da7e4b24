// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/loop.hpp"

#include <fmt/format.h>

#include <cmath>

#include "comm/agree.hpp"

namespace shard8::train {

std::vector<StepResult> train(Trainer& trainer, const deck::RunConfig& run, const LoopHooks& hooks) {
  std::vector<StepResult> results;
  for (std::int64_t s = 0; s < run.steps; ++s) {
    hooks.before(s);
    const StepResult& result = results.emplace_back(trainer.step(s));
    hooks.after(result);
    if (!std::isfinite(result.loss) || !std::isfinite(result.gradient_norm))
      throw comm::AgreedError(
          base::ExitCode::failed,
          fmt::format(
              "step {}: loss {} and gradient norm {} are not finite: training diverged; try a lower optimizer.lr "
              "(now {}), a longer optimizer.warmup or precision.compute = fp32",
              s, result.loss, result.gradient_norm, result.learning_rate),
          trainer.ranks());
  }
  return results;
}

}  // namespace shard8::train

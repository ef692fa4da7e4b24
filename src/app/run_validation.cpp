// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/run_validation.hpp"

#include "base/text.hpp"

namespace shard8::app {

RunValidation::RunValidation(const data::Loader& loader, const deck::RunConfig& run)
    : figures_{.every = run.validate_every,
               .batches = train::validation_batches(loader, run),
               .tokens = train::validation_tokens(loader, run)} {}

std::optional<train::Validation> RunValidation::after_step(const train::StepResult& step, const Around& around) {
  if (!around.trainer.validates_after(step.step)) return std::nullopt;
  const train::StopReason reason = train::reason_of(step.stop_request);
  const bool urgent = reason && reason.kind != train::StopReason::Kind::stop_after;
  train::Validation result;
  if (!urgent) {
    around.world.record_device_calls();
    const bool measuring = around.log.measuring();
    around.log.set_measuring(false);
    if (around.tracer != nullptr) around.tracer->pause();
    around.energy.pause(around.world);
    result = around.trainer.validate([&] { return train::code_of(around.stopping.within_validation()); });
    around.energy.resume(around.world);
    around.world.record_device_calls();
    if (around.tracer != nullptr) around.tracer->resume();
    around.log.set_measuring(measuring);
  }
  note(result, step.step, around.logger);
  return result;
}

void RunValidation::note(const train::Validation& result, std::int64_t step, base::Logger& logger) {
  seconds_ += result.seconds;
  if (!result.loss) {
    ++figures_.stopped;
    if (logger.speaks())
      logger.warn("the validation behind step {} was stopped after {} of {}: it has no loss", step, result.batches,
                  base::count(figures_.batches, "batch", "batches"));
    return;
  }
  ++figures_.runs;
  figures_.seconds += result.seconds;
  figures_.last_step = step;
  figures_.last_loss = result.loss;
}

}  // namespace shard8::app

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/record.hpp"

#include "train/trainer.hpp"

namespace shard8::train {

using operation::Operation;

std::vector<int> record_step(const Setup& setup, const StepOfRun& step, const operation::Recorder::Sink& sink,
                             const operation::Recorder::Calls& calls) {
  Setup run = setup;
  const std::int64_t number = step.first ? 0 : 1;
  run.config.run.steps = number + (step.last ? 1 : 2);
  State state(run, tensor::ArenaSet::measure(), 0);
  const comm::Mesh mesh = comm::mesh_on_paper(run.place);
  profile::StepTimer phases(nullptr);
  std::int64_t now = 0;
  operation::Recorder recorder(
      [&](const Operation& operation) {
        if (now == number) sink(operation);
      },
      calls);
  Trainer trainer(recorder, run, mesh, state, phases);
  for (; now <= number; ++now) {  // what the step before begins and knows is part of the step
    recorder.begin_step();
    trainer.step(now);
  }
  return recorder.ahead();
}

operation::Operations record_step(const Setup& setup, const StepOfRun& step) {
  operation::Operations all;
  all.ahead = record_step(setup, step, [&](const Operation& operation) { all.list.push_back(operation); });
  return all;
}

}  // namespace shard8::train

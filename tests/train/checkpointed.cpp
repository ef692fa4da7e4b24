// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/train/checkpointed.hpp"

#include <fmt/format.h>

#include "deck/fields.hpp"

namespace shard8::test {

train::RunDescription described(const deck::Config& config) {
  train::RunDescription run{"shard8 test", "none", {}};
  for (const deck::Group& group : deck::all_groups())
    for (const deck::Field& field : group.fields)
      run.deck.push_back({fmt::format("{}.{}", group.name, field.key), deck::value_text(field, config), "deck"});
  return run;
}

CheckpointedTraining::CheckpointedTraining(const deck::Config& config, MPI_Comm comm,
                                           const train::RunDescription& description, const Thresholds& thresholds)
    : training(config, comm, thresholds), folder(training.mesh().world, config.checkpoint.dir, say()) {
  // Tests change keys and go on in the same folder.
  const auto points =
      train::find_restart(config, config.checkpoint.dir, training.mesh().world, description, say(), true);
  folder.recover(training.mesh().world, say());
  const auto point = train::restore(points, training.assembly(), description, say());
  if (point) first = point->manifest.step;
  train::RunDescription writes = description;
  writes.identity = points.start.identity;
  checkpoints.emplace(training.assembly(), folder, writes, point ? &point->manifest : nullptr, say());
}

train::Say CheckpointedTraining::say() {
  return [this](const std::string& text) { said += text + "\n"; };
}

std::vector<train::StepResult> CheckpointedTraining::train_to(std::int64_t end) {
  std::vector<train::StepResult> results;
  for (; first < end; ++first) {
    results.push_back(training.run(first, 1).front());
    checkpoints->between_steps(first + 1, results.back().loss);
  }
  return results;
}

}  // namespace shard8::test

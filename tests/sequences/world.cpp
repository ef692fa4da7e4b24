// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/sequences/world.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shard8::test {

std::string step_folder(std::int64_t step) { return fmt::format("step_{:08d}", step); }

const Checkpoint* Folder::newest(int training) const {
  const Checkpoint* newest = nullptr;
  for (const auto& [step, one] : checkpoints)
    if (one.usable() && (training < 0 || one.training == training) &&
        (newest == nullptr || one.serial > newest->serial))
      newest = &one;
  return newest;
}

bool Folder::holds_other(int training) const {
  return std::any_of(checkpoints.begin(), checkpoints.end(), [&](const auto& one) {
    return one.second.training != training && one.second.state != Checkpoint::State::no_manifest;
  });
}

bool Folder::holds_unknown(int training) const {
  return std::any_of(checkpoints.begin(), checkpoints.end(), [&](const auto& one) {
    return one.second.training != training && one.second.state == Checkpoint::State::no_manifest;
  });
}

std::string Restart::text() const {
  if (kind == Kind::automatic) return "auto";
  if (kind == Kind::none) return "none";
  return step < 0 ? folder : folder + "/" + step_folder(step);
}

std::vector<std::string> Command::arguments(const std::string& prefix) const {
  Deck shown = deck;
  shown.data_path = prefix + deck.data_path;
  auto arguments = shown.arguments();
  arguments.push_back("output.dir=" + prefix + output);
  if (!folder.empty()) arguments.push_back("checkpoint.dir=" + prefix + folder);
  if (restart.kind == Restart::Kind::path)
    arguments.push_back("checkpoint.restart=" + prefix + restart.text());
  else if (restart.kind == Restart::Kind::none)
    arguments.emplace_back("checkpoint.restart=none");
  if (allow_changes) arguments.emplace_back("checkpoint.allow_changes=true");
  if (replace) arguments.emplace_back("output.replace=true");
  if (stop_after > 0) arguments.push_back(fmt::format("run.stop_after={}", stop_after));
  if (final_loss_max > 0) arguments.push_back(fmt::format("verify.final_loss_max={}", final_loss_max));
  if (!gold.empty()) arguments.insert(arguments.end(), {"verify.gold=" + prefix + gold, "verify.tolerance=1e-5"});
  return arguments;
}

std::string Command::shell() const {
  std::string text = requeue ? "SLURM_RESTART_COUNT=1 " : "";
  text += fmt::format("mpiexec -n {} shard8 run deck.yaml", deck.mesh.ranks());
  for (const std::string& one : arguments()) text += " " + one;
  return text;
}

}  // namespace shard8::test

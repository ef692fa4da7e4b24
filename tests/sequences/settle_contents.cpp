// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Settle: the lines of metrics.jsonl and the checkpoints.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "tests/sequences/settle.hpp"

namespace shard8::test {

namespace {

/// What docs/mesh.md promises for FP32: on another mesh sums have another order.
constexpr double kOtherMesh = 2e-6;

std::vector<std::int64_t> steps_of(const std::vector<SeenLine>& lines) {
  std::vector<std::int64_t> steps;
  for (const SeenLine& line : lines) steps.push_back(line.step);
  return steps;
}

}  // namespace

void Settle::check_line(const SeenLine& line, const OneMesh& mesh) {
  if (line.run != training().id)
    broken(fmt::format("{}/metrics.jsonl: the line of step {} is of training {}, not {}", command_.output, line.step,
                       line.run, training().id));
  if (!std::isfinite(line.loss)) broken(fmt::format("the loss of step {} is {}", line.step, line.loss));
  if (!mesh && !place_.base.fp32()) return;
  if (line.step < 0 || line.step >= kMostSteps) broken(fmt::format("there is a line of step {}", line.step));
  const double wanted = losses(mesh.value_or(Mesh{}))[static_cast<std::size_t>(line.step)];
  const double difference = std::abs(line.loss - wanted) / std::abs(wanted);
  if (mesh ? line.loss == wanted : difference <= kOtherMesh) return;
  broken(fmt::format("the loss of step {} is {}, without interruption it is {}: {:.1e} relative, on {}", line.step,
                     line.loss, wanted, difference, mesh ? "the mesh " + text_of(*mesh) : "several meshes"));
}

void Settle::check_lines(const RunEnd& end, std::int64_t last) {
  Output& output = world_.outputs[command_.output];
  const auto seen = steps_of(output_.lines);
  const auto before = output.lines;
  std::vector<std::int64_t> kept, all;
  for (const auto& [step, mesh] : before) {
    all.push_back(step);
    if (step < outcome_.first) kept.push_back(step);
  }
  if (!trains() && output.owner && *output.owner != index_) {  // another training's, which output.replace would move
    if (seen != all)
      broken(fmt::format("{}/metrics.jsonl has steps {}, not {}, and nothing was trained", command_.output,
                         fmt::join(seen, " "), fmt::join(all, " ")));
    return;
  }
  const bool may_be_old = end.how != RunEnd::How::by_itself || !trains();
  const bool is_old = seen == all;
  std::int64_t done = last;
  if (end.how == RunEnd::How::killed && end.code != 0)
    done = std::clamp(seen.empty() ? 0 : seen.back() + 1, outcome_.first, last);
  auto wanted = kept;
  for (std::int64_t step = outcome_.first; step < done; ++step) wanted.push_back(step);
  if (seen != wanted && !(may_be_old && is_old))
    broken(fmt::format("{}/metrics.jsonl has steps {}, not {}", command_.output, fmt::join(seen, " "),
                       fmt::join(wanted, " ")));
  output.lines.clear();
  for (const SeenLine& line : output_.lines) {
    const auto found = before.find(line.step);
    OneMesh mesh = mesh_of_leg();
    if (line.step < outcome_.first)
      mesh = found->second;
    else if (found != before.end() && is_old && may_be_old && found->second != mesh)
      mesh = std::nullopt;
    check_line(line, mesh);
    output.lines[line.step] = mesh;
  }
  if (!trains() || !output.owner) return;
  const bool ended = end.how == RunEnd::How::by_itself || end.code == 0 || end.code == 75;
  output.finished =
      ended ? last >= command_.deck.steps : output_.training.is_object() && output_.training.value("finished", false);
  if (ended && !writes(last).empty()) output.has_told_checkpoint = true;
}

void Settle::check_manifest(std::int64_t step, const SeenCheckpoint& seen) const {
  const std::string name = command_.checkpoints() + "/" + step_folder(step);
  if (seen.step != step) broken(fmt::format("{}/manifest.json is of step {}", name, seen.step));
  if (seen.run != training().id) broken(fmt::format("{} is of training {}, not {}", name, seen.run, training().id));
  if (!seen.has_parent_key) broken(name + "/manifest.json does not say whether the training has a parent");
  std::optional<std::pair<std::string, std::int64_t>> parent;
  if (const auto& p = training().parent) parent = {world_.trainings[static_cast<std::size_t>(p->training)].id, p->step};
  if (seen.parent != parent)
    broken(fmt::format("{}: the parent is {}, not {}", name,
                       seen.parent ? fmt::format("step {} of {}", seen.parent->second, seen.parent->first) : "nothing",
                       parent ? fmt::format("step {} of {}", parent->second, parent->first) : "nothing"));
}

/// The checkpoints are those that the run found, and those that it wrote, but for those that `keep` gives up.
void Settle::check_checkpoints(const RunEnd& end, std::int64_t last) {
  Folder& folder = world_.folders[command_.checkpoints()];
  const std::string& name = command_.checkpoints();
  const bool killed = end.how == RunEnd::How::killed && end.code != 0;
  std::int64_t serial = 0;
  for (const auto& [step, one] : folder.checkpoints)
    if (one.state != Checkpoint::State::no_manifest) serial = std::max(serial, one.serial);
  // Of those that the run was to write, the ones up to the last one that is there.
  auto written = trains() ? writes(last) : std::vector<std::int64_t>();
  const auto is_new = [&](std::int64_t step) {
    const auto found = folder_.checkpoints.find(step);
    return found != folder_.checkpoints.end() && found->second.serial > serial;
  };
  if (killed)
    while (!written.empty() && !is_new(written.back())) written.pop_back();
  // In the order in which they were written.
  std::vector<const Checkpoint*> usable;
  for (const auto& [step, one] : folder.checkpoints)
    if (one.usable() && !one.uncertain && one.training == index_ &&
        std::find(written.begin(), written.end(), step) == written.end())
      usable.push_back(&one);
  std::sort(usable.begin(), usable.end(), [](auto* a, auto* b) { return a->serial < b->serial; });
  std::vector<std::int64_t> owned;
  for (const Checkpoint* one : usable) owned.push_back(one->step);
  owned.insert(owned.end(), written.begin(), written.end());
  const std::size_t surplus =
      owned.size() - std::min<std::size_t>(owned.size(), static_cast<std::size_t>(command_.deck.keep));
  for (std::size_t i = 0; i < owned.size(); ++i) {
    const bool there = folder_.checkpoints.contains(owned[i]);
    if (i >= surplus && !there)
      broken(fmt::format("{}/{} is lost, with checkpoint.keep = {}", name, step_folder(owned[i]), command_.deck.keep));
    if (i < surplus && there && !written.empty() && !killed)
      broken(fmt::format("{}/{} is still there, with checkpoint.keep = {}", name, step_folder(owned[i]),
                         command_.deck.keep));
  }
  for (const auto& [step, one] : folder.checkpoints) {
    const bool rewritten = std::find(written.begin(), written.end(), step) != written.end();
    const auto found = folder_.checkpoints.find(step);
    const bool may_go = rewritten || one.uncertain || (one.usable() && one.training == index_);
    if (found == folder_.checkpoints.end()) {
      if (!may_go) broken(fmt::format("{}/{} is gone, and is not the run's own", name, step_folder(step)));
    } else if (!rewritten && found->second.digest != one.digest && !one.uncertain && !found->second.moved_aside) {
      broken(fmt::format("{}/{} has changed", name, step_folder(step)));
    }
  }
  std::map<std::int64_t, Checkpoint> now;
  for (const auto& [step, seen] : folder_.checkpoints) {
    const bool rewritten = std::find(written.begin(), written.end(), step) != written.end();
    const auto found = folder.checkpoints.find(step);
    if (rewritten) {
      check_manifest(step, seen);
      if (!is_new(step))
        broken(
            fmt::format("{}/{} has serial {}, and an older one has {}", name, step_folder(step), seen.serial, serial));
      now[step] = {index_, step,       seen.serial, command_.deck, mesh_of_leg(), Checkpoint::State::good,
                   false,  seen.digest};
    } else if (found != folder.checkpoints.end()) {
      now[step] = found->second;
    } else {
      broken(fmt::format("{}/{} is there, and nobody was to write it", name, step_folder(step)));
    }
    now[step].uncertain = seen.moved_aside;
  }
  folder.checkpoints = now;
  folder.latest = folder_.latest;
  if (!killed && !written.empty() && folder_.latest != step_folder(written.back()))
    broken(fmt::format("{}/latest names '{}', and {} was written last", name, folder_.latest,
                       step_folder(written.back())));
}

}  // namespace shard8::test

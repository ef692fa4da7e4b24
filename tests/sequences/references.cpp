// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/sequences/settle.hpp"

#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <stdexcept>

#include "tests/restart/program.hpp"
#include "tests/sequences/seen.hpp"

namespace shard8::test {

namespace fs = std::filesystem;

std::shared_ptr<References::Entry> References::entry(const std::string& key) {
  const std::lock_guard guard(mutex_);
  auto& found = entries_[key];
  if (!found) {
    found = std::make_shared<Entry>();
    found->folder = folder_ / fmt::format("reference_{}", entries_.size());
  }
  return found;
}

std::vector<double> References::losses(const BaseDeck& base, const std::vector<Segment>& lineage, const Mesh& mesh) {
  return run(base, lineage, mesh, kMostSteps)->losses;
}

std::shared_ptr<References::Entry> References::run(const BaseDeck& base, const std::vector<Segment>& lineage,
                                                   const Mesh& mesh, std::int64_t end) {
  std::string key = fmt::format("{}\n{}\n{}", base.text(), text_of(mesh), end);
  for (const Segment& one : lineage) key += fmt::format("\nfrom {}: {}", one.first, one.deck.training_text());
  const auto wanted = entry(key);
  const std::lock_guard guard(wanted->mutex);
  if (wanted->done) return wanted;
  const bool first = lineage.size() == 1;
  const std::int64_t begin = lineage.back().first;
  std::shared_ptr<Entry> before;
  if (!first) before = run(base, {lineage.begin(), lineage.end() - 1}, mesh, begin);
  fs::remove_all(wanted->folder);
  fs::create_directories(wanted->folder);
  std::ofstream(wanted->folder / "deck.yaml") << base.text();
  Deck deck = lineage.back().deck;
  write_content(wanted->folder / "text.txt", deck.content);
  deck.mesh = mesh;
  deck.data_path = "text.txt";
  deck.steps = kMostSteps;
  deck.every = 0;
  Command command;
  command.output = "out";
  command.deck = deck;
  if (end < kMostSteps) command.stop_after = end - begin;
  if (before) {
    command.allow_changes = true;
    command.restart = {Restart::Kind::path, fs::absolute(before->folder / "out/checkpoints"), begin};
  }
  auto arguments = command.arguments();
  if (end == kMostSteps && !before) arguments.emplace_back("checkpoint.restart=none");
  constexpr std::chrono::seconds kLimit{300};
  ProgramRun program({.folder = wanted->folder, .ranks = mesh.ranks(), .arguments = arguments});
  const auto ran = program.wait(kLimit);
  if (ran.code != (end < kMostSteps ? 75 : 0))
    throw std::runtime_error(
        fmt::format("the reference in {} ended with exit code {}\n{}", wanted->folder.string(), ran.code, ran.output));
  if (before) wanted->losses.assign(before->losses.begin(), before->losses.begin() + begin);
  for (const SeenLine& line : lines_of(wanted->folder / "out/metrics.jsonl")) wanted->losses.push_back(line.loss);
  if (static_cast<std::int64_t>(wanted->losses.size()) != end)
    throw std::runtime_error(
        fmt::format("the reference in {} has {} losses, not {}", wanted->folder.string(), wanted->losses.size(), end));
  wanted->done = true;
  const std::lock_guard count(mutex_);
  ++runs_;
  return wanted;
}

}  // namespace shard8::test

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// Site: what users do to files by hand.
#include <fmt/format.h>

#include <fstream>

#include "tests/sequences/site.hpp"

namespace shard8::test {

namespace fs = std::filesystem;

void Site::write_gold(Command& command, std::int64_t wrong) {
  const Outcome outcome = expect(command);
  command.gold = "gold.jsonl";
  command.gold_is_wrong = wrong >= 0 || outcome.refused != 0;  // a requeue may train what was refused, in another way
  const auto losses = outcome.refused != 0 ? std::vector<double>(static_cast<std::size_t>(kMostSteps), 1.0)
                                           : references_.losses(base_, outcome.lineage, command.deck.mesh);
  std::ofstream out(folder_ / command.gold);
  for (std::int64_t step = 0; step < command.deck.steps; ++step)
    out << fmt::format("{{\"step\": {}, \"loss\": {}}}\n", step,
                       losses[static_cast<std::size_t>(step)] * (step == wrong ? 1.01 : 1.0));
  shell_.push_back(fmt::format("# gold.jsonl has the losses that the training must have{}",
                               wrong >= 0 ? fmt::format(", but for step {}", wrong) : ""));
}

void Site::write_text(const std::string& file, const Content& content) {
  write_content(folder_ / file, content);
  world_.files[file] = content;
  shell_.push_back(shell_of(file, content));
}

void Site::append_text(const std::string& file) {
  Content& content = world_.files.at(file);
  shell_.push_back(shell_append(file, content.appended));
  ++content.appended;
  write_content(folder_ / file, content);
}

void Site::copy_text(const std::string& from, const std::string& to) {
  fs::copy_file(folder_ / from, folder_ / to, fs::copy_options::overwrite_existing);
  world_.files[to] = world_.files.at(from);
  shell_.push_back(fmt::format("cp {} {}", from, to));
}

void Site::remove_text(const std::string& file) {
  fs::remove(folder_ / file);
  world_.files.erase(file);
  shell_.push_back("rm " + file);
}

void Site::remove_checkpoint(const std::string& folder, std::int64_t step) {
  fs::remove_all(folder_ / folder / step_folder(step));
  world_.folders.at(folder).checkpoints.erase(step);
  shell_.push_back(fmt::format("rm -r {}/{}", folder, step_folder(step)));
}

void Site::refresh_digest(const std::string& folder, std::int64_t step) {
  const auto seen = look_at_folder(folder_ / folder);
  world_.folders.at(folder).checkpoints.at(step).digest = seen.checkpoints.at(step).digest;
}

void Site::cut_shard(const std::string& folder, std::int64_t step) {
  const fs::path shard = folder_ / folder / step_folder(step) / "shard_r0000.h5";
  fs::resize_file(shard, fs::file_size(shard) - 1);
  auto& checkpoint = world_.folders.at(folder).checkpoints.at(step);
  if (checkpoint.state == Checkpoint::State::good) checkpoint.state = Checkpoint::State::cut_shard;
  refresh_digest(folder, step);
  shell_.push_back(fmt::format("truncate -s -1 {}/{}/shard_r0000.h5", folder, step_folder(step)));
}

void Site::remove_manifest(const std::string& folder, std::int64_t step) {
  fs::remove(folder_ / folder / step_folder(step) / "manifest.json");
  world_.folders.at(folder).checkpoints.at(step).state = Checkpoint::State::no_manifest;
  refresh_digest(folder, step);
  shell_.push_back(fmt::format("rm {}/{}/manifest.json", folder, step_folder(step)));
}

}  // namespace shard8::test

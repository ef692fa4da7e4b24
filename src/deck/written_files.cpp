// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/written_files.hpp"

#include "deck/device.hpp"
#include "deck/overlap.hpp"

namespace shard8::deck {

std::vector<WrittenFile> written_files(const OutputConfig& output) {
  std::vector<WrittenFile> files = {{"output.summary", output.summary},
                                    {"output.metrics", output.metrics},
                                    {"output.timing", output.timing},
                                    {"output.timing_ranks", output.timing_ranks},
                                    {"output.trace", output.trace},
                                    {"ranks", OutputConfig::kRanks},
                                    {"training", kTrainingFile},
                                    {"overlap", OutputConfig::kOverlap},
                                    {"algorithms", OutputConfig::kAlgorithms},
                                    {"lock", "lock"}};
  std::erase_if(files, [](const WrittenFile& file) { return file.name.empty(); });
  return files;
}

std::vector<WrittenFile> written_files(const Config& config) {
  std::vector<WrittenFile> files = written_files(config.output);
  const bool skeleton = config.run.skeleton != Skeleton::none;
  std::erase_if(files, [&](const WrittenFile& file) {
    if (file.key == "lock") return true;
    if (file.key == "overlap") return exchanges_with(config, ExchangeMethod::automatic).empty();
    if (file.key == "algorithms") return !on_device(config.mesh);
    return skeleton && (file.key == "output.metrics" || file.key == "training");
  });
  return files;
}

bool is_file_name(std::string_view name) {
  return !name.empty() && name.find('/') == std::string_view::npos && name != "." && name != "..";
}

bool is_reserved(std::string_view name) {
  return name == "lock" || name.starts_with("lock.") || name == kTrainingFile || name.starts_with("replaced_");
}

bool is_name_of_checkpoints(std::string_view name) {
  return name == "latest" || name == "latest.tmp" || name == "lock" || name.starts_with("lock.") ||
         name == "manifest.json" || name.starts_with("step_") || name.starts_with("shard_r") ||
         name.starts_with("node_n");
}

std::optional<std::filesystem::path> default_checkpoint_folder(const Config& config) {
  const CheckpointConfig& c = config.checkpoint;
  if (!c.dir.empty() || c.restart != CheckpointConfig::kAutoRestart) return std::nullopt;
  return std::filesystem::path(config.output.dir) / CheckpointConfig::kDefaultDir;
}

}  // namespace shard8::deck

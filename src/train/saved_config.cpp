// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/saved_config.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "deck/load.hpp"

namespace shard8::train {

namespace {

/// Whether a key is taken from a checkpoint's deck.
bool is_taken(std::string_view key) {
  constexpr std::array<std::string_view, 5> kGroups = {"model.", "moe.", "precision.", "fp8.", "optimizer."};
  constexpr std::array<std::string_view, 7> kKeys = {"mesh.replicate", "mesh.shard",       "mesh.tensor", "mesh.expert",
                                                     "data.batch",     "data.micro_batch", "run.steps"};
  if (key == "model.init_file") return false;
  return std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end() ||
         std::any_of(kGroups.begin(), kGroups.end(), [&](std::string_view group) { return key.starts_with(group); });
}

}  // namespace

deck::Config saved_config(const checkpoint::Checkpoint& checkpoint) {
  std::vector<std::string> keys;
  for (const checkpoint::ManifestKey& key : checkpoint.manifest.deck)
    if (is_taken(key.key)) keys.push_back(key.key + "=" + key.value);
  try {
    return deck::load_text("data: {kind: synthetic}\n", checkpoint.folder + "/deck.yaml", keys).config;
  } catch (const base::Error& error) {
    base::fail(base::ExitCode::checkpoint,
               "checkpoint {}: this program cannot read its deck: use {}, which wrote it, or another checkpoint\n{}",
               checkpoint.folder, checkpoint.manifest.program, error.what());
  }
}

}  // namespace shard8::train

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "deck/without_files.hpp"

namespace shard8::deck {

Config without_files(Config config) {
  config.data.kind = DataKind::synthetic;
  config.data.path.clear();
  config.data.validation = 0;
  config.data.validation_path.clear();
  config.model.init_file.clear();
  config.run.validate_every = 0;
  config.run.validate_batches = 0;
  config.run.skeleton = Skeleton::none;
  config.run.skeleton_times.clear();
  config.verify = {};
  return config;
}

}  // namespace shard8::deck

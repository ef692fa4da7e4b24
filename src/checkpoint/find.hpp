// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "checkpoint/directory.hpp"

namespace shard8::checkpoint {

/// A checkpoint in its folder.
struct Checkpoint {
  std::string folder;
  Manifest manifest;
};

/// Whether the path itself is a checkpoint, usable or not: a folder with a manifest or with the name of a checkpoint.
bool is_checkpoint(const std::string& path);

/// Whether a path names a checkpoint or checkpoints as open_checkpoint() looks for them, usable or not.
bool names_checkpoints(const std::string& path);

/// The folder of checkpoints that a path names: the path itself if there are checkpoints in it, or else the folder
/// `checkpoints` in it. Error(checkpoint) if there are none in either.
Directory directory_at(const std::string& path);

/// Directory::scan(). `say` is told of the checkpoints that are not usable.
Directory::Scan scan_and_say(const Directory& directory, const std::function<void(const std::string&)>& say);

/// The checkpoint that a path names: the path itself, or else of directory_at() the last written that is usable. `say`
/// is told of those that are not usable. Error(checkpoint) if there is none. Its manifest verifies and its files have
/// their lengths; their bytes are not checked.
Checkpoint open_checkpoint(const std::string& path, const std::function<void(const std::string&)>& say);

}  // namespace shard8::checkpoint

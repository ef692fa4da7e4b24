// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace shard8::checkpoint {

enum class Kind { none, folder, other };
/// What is at a path. With `follow` a link counts as what it leads to, otherwise as `other`. Error(checkpoint) if the
/// path cannot be examined.
Kind kind_of(const std::string& path, bool follow);

/// The names in a folder, in bytewise order; none if there is no folder. Error(checkpoint) if it cannot be listed.
std::vector<std::string> names_in(const std::string& folder);

/// True for the names that shard8 gives to files in a checkpoint's folder: manifest.json, manifest.json.tmp,
/// shard_rN.h5, node_nN.h5.
bool is_file_of_checkpoint(const std::string& name);

/// mkdir, rename, unlink with Error(environment).
void make_folder(const std::string& path);
void rename_to(const std::string& from, const std::string& to);
void remove_file(const std::string& path);

/// Removes the files of a checkpoint, the manifest first, then the folder. Error(environment) if the folder holds
/// anything else, which stays, or if something cannot be removed.
void remove_step_folder(const std::string& path);

}  // namespace shard8::checkpoint

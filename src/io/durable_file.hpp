// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace shard8::io {

/// Writes a file so that after a crash at any moment `path` holds either its old content or all of `bytes`: writes
/// path.tmp, fsync, rename, fsync of the folder. Error(environment) names the path, the operation, the system's reason
/// and what is needed; path.tmp is then removed.
void write_durably(const std::string& path, std::string_view bytes);

/// The name of the file that holds the bytes until they are complete: path.tmp.
std::string temporary_of(const std::string& path);

/// Makes a rename or a new file in this folder survive a crash (fsync). "" is the working directory.
void sync_folder(const std::string& folder);

}  // namespace shard8::io

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace shard8::io {

/// Writes a file so that after a crash at any moment `path` holds either what it held before or
/// all of `bytes`: into path.tmp, fsync, rename, fsync of the folder. Error(environment) names path,
/// operation, the system's reason and what is needed, and leaves no path.tmp behind.
void write_durably(const std::string& path, std::string_view bytes);

/// Where the bytes are until they are complete: path.tmp.
std::string temporary_of(const std::string& path);

/// Makes a rename or a new file in this folder survive a crash; "" is the working directory.
void sync_folder(const std::string& folder);

}  // namespace shard8::io

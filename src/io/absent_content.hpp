// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shard8::io {

/// Does nothing unless a path stands for content that is not on this machine. Error(deck), with what to do, if the path
/// is a link and its target is missing, or a file that Git LFS left in place of the content.
void require_content(const std::string& path);

}  // namespace shard8::io

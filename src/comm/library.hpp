// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shard8::comm {

/// One line naming the MPI library and its version; works before initialisation.
std::string library_version();

}  // namespace shard8::comm

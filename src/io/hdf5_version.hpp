// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shard8::io {

/// "1.10.8", of the library that is linked.
std::string hdf5_version();

}  // namespace shard8::io

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shard8::test {

/// Launches a kernel that fails. Every later call of this process to the device gives its error.
void launch_trap();

}  // namespace shard8::test

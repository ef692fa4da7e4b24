// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shard8::tests {

/// Initialises GoogleTest and reads two options: `--case NAME` runs only the suite of that name in snake case;
/// `--cases A,B,...` lists all cases of this executable. Returns false, with the reason on stderr, if no test would
/// run or if a suite is in no case.
bool init_cases(int& argc, char** argv);

}  // namespace shard8::tests

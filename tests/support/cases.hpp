// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shard8::tests {

/// Initializes GoogleTest and obeys `--case NAME` (run the suite of that name in snake case
/// only) and `--cases A,B,...` (all cases of this executable). False, with the reason on
/// stderr, if nothing would run or a suite is in no case.
bool init_cases(int& argc, char** argv);

}  // namespace shard8::tests

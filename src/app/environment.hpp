// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace shard8::app {

/// Variables of this process's environment, of those that change what a run does or how fast it is: name and value, by
/// name, without those that may hold secrets.
std::vector<std::pair<std::string, std::string>> relevant_environment();

}  // namespace shard8::app

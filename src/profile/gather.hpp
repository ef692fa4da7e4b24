// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shard8::profile {

/// How figures of all ranks come together, given from outside: every rank calls them alike and gets
/// every rank's values, in rank order. The values of all ranks are equally many.
struct Gather {
  std::function<std::vector<double>(std::span<const double>)> doubles;
  std::function<std::vector<std::string>(std::string_view)> texts;
};

}  // namespace shard8::profile

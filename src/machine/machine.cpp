// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "machine/machine.hpp"

namespace shard8::machine {

std::string_view name_of(Source::Kind kind) {
  constexpr std::string_view names[] = {"measured", "imported", "datasheet", "chosen"};
  return names[static_cast<int>(kind)];
}

std::string_view name_of(Load load) {
  constexpr std::string_view names[] = {"product", "attention", "kernel", "collective", "copies", "sums"};
  return names[static_cast<int>(load)];
}

int Machine::add_source(Source::Kind kind, const std::string& source_name, const std::string& text) {
  std::string free = source_name;
  for (int next = 2;; ++next) {
    int same_name = -1;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (sources[i].name != free) continue;
      if (sources[i].kind == kind && sources[i].text == text) return static_cast<int>(i);
      same_name = static_cast<int>(i);
    }
    if (same_name < 0) break;
    free = source_name + "_" + std::to_string(next);
  }
  sources.push_back({free, kind, text});
  return static_cast<int>(sources.size()) - 1;
}

}  // namespace shard8::machine

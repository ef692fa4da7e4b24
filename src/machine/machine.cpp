// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "machine/machine.hpp"

namespace shard8::machine {

std::string_view name_of(Source::Kind kind) {
  constexpr std::string_view names[] = {"measured", "imported", "datasheet", "chosen"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view name_of(Load load) {
  constexpr std::string_view names[kLoads] = {"product", "attention", "kernel", "collective", "copies"};
  return names[static_cast<std::size_t>(load)];
}

int Machine::add_source(Source::Kind kind, const std::string& source_name, const std::string& text) {
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (sources[i].name == source_name && sources[i].text == text) return static_cast<int>(i);
  sources.push_back({source_name, kind, text});
  return static_cast<int>(sources.size()) - 1;
}

}  // namespace shard8::machine

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <string>
#include <string_view>
#include <unordered_set>

namespace shard8::kernels {

/// The name `head` + `middle` + `tail` of a kernel for Kokkos; empty where no tool is loaded that could read it, since
/// a launch would take memory for a copy of a long one. A thread makes each name once and keeps it.
inline const std::string& label_of(std::string_view head, std::string_view middle = {}, std::string_view tail = {}) {
  static const std::string none;
  if (!Kokkos::Tools::profileLibraryLoaded()) return none;
  thread_local std::unordered_set<std::string> labels;
  thread_local std::string name;
  name.assign(head).append(middle).append(tail);
  const auto found = labels.find(name);
  return found == labels.end() ? *labels.insert(name).first : *found;
}

}  // namespace shard8::kernels

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/kokkos/label.hpp"

#include <Kokkos_Core.hpp>
#include <unordered_set>

namespace shard8::kernels {

const std::string& label_of(std::string_view head, std::string_view middle, std::string_view tail) {
  static const std::string none;
  if (!Kokkos::Tools::profileLibraryLoaded()) return none;
  thread_local std::unordered_set<std::string> labels;
  thread_local std::string name;
  name.assign(head).append(middle).append(tail);
  const auto found = labels.find(name);
  return found == labels.end() ? *labels.insert(name).first : *found;
}

ReportedKernel::ReportedKernel(const tensor::Exec& exec, const char* label)
    : reported_(Kokkos::Tools::profileLibraryLoaded()) {
  if (reported_) Kokkos::Tools::beginParallelFor(label, Kokkos::Tools::Experimental::device_id(exec), &number_);
}

ReportedKernel::~ReportedKernel() {
  if (reported_) Kokkos::Tools::endParallelFor(number_);
}

}  // namespace shard8::kernels

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tensor/runtime.hpp"

namespace shard8::kernels {

/// The name `head` + `middle` + `tail` of a kernel, for Kokkos. The name is empty while no Kokkos tool is loaded: no
/// tool would read it, and Kokkos would allocate memory for a copy of a long name at each launch. Each thread makes a
/// name once and keeps it.
const std::string& label_of(std::string_view head, std::string_view middle = {}, std::string_view tail = {});

/// Reports a kernel that Kokkos does not launch itself to Kokkos Tools, from construction to destruction, like a
/// parallel_for of that label on `exec`. Without a tool the object does nothing.
class ReportedKernel {
 public:
  ReportedKernel(const tensor::Exec& exec, const char* label);
  ~ReportedKernel();
  ReportedKernel(const ReportedKernel&) = delete;
  ReportedKernel& operator=(const ReportedKernel&) = delete;

 private:
  bool reported_;
  std::uint64_t number_ = 0;
};

}  // namespace shard8::kernels

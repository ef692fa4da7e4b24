// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::tensor {

/// Copies between the host's memory and the execution space's memory, in the order of the work of `exec`.

/// Copies to.bytes() bytes from `from`. The caller may overwrite `from` once this returns.
void to_device(const Exec& exec, const Tensor& to, const void* from);

/// Copies from.bytes() bytes into `to`, and waits for the work of `exec` up to this copy.
void to_host(const Exec& exec, void* to, const Tensor& from);

/// The elements of a tensor as T. T need not have the dtype's size, but its size must divide the tensor's bytes.
template <class T>
std::vector<T> to_host(const Exec& exec, const Tensor& from) {
  std::vector<T> elements(from.bytes() / sizeof(T));
  if (!elements.empty()) to_host(exec, elements.data(), from);
  return elements;
}

/// The one element of a tensor, as T.
template <class T>
T value_to_host(const Exec& exec, const Tensor& from) {
  SHARD8_REQUIRE(from.bytes() == sizeof(T), "a tensor {} of {} bytes is read as one value of {} bytes",
                 to_string(from.shape), from.bytes(), sizeof(T));
  T value;
  to_host(exec, &value, from);
  return value;
}

/// Waits for all work of `exec`, and of no other stream.
void finish(const Exec& exec);

}  // namespace shard8::tensor

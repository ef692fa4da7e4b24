// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tensor/exec.hpp"
#include "tensor/tensor.hpp"

namespace shard8::tensor {

/// Copies between hosts' memory and that of the execution space, in the order of `exec`'s work.

/// to.bytes() bytes from `from`, which may be changed when this returns.
void to_device(const Exec& exec, const Tensor& to, const void* from);

/// from.bytes() bytes into `to`; waits for what `exec` has to do until then.
void to_host(const Exec& exec, void* to, const Tensor& from);

/// The elements of a tensor, as T; T's size need not be the dtype's, but must divide the bytes.
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

/// Waits for all work of `exec`, of that stream alone.
void finish(const Exec& exec);

}  // namespace shard8::tensor

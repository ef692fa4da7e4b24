// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tensor/tensor.hpp"

namespace shard8::kernels {

class Libraries;

/// What a kernel needs besides its operands: memory that it may overwrite during the call, and the vendor's libraries.
/// Two kernels that run at once need memory each.
struct Workspace {
  tensor::Tensor memory;           ///< u8
  Libraries* libraries = nullptr;  ///< null on hosts; on a device needed by products and by bf16 attention

  Workspace() = default;
  Workspace(const tensor::Tensor& bytes, Libraries* vendor = nullptr)  // NOLINT: memory alone is a workspace
      : memory(bytes), libraries(vendor) {}
};

}  // namespace shard8::kernels

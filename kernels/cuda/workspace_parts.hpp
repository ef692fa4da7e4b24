// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.hpp"
#include "tensor/alignment.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels::cuda {

inline std::uintptr_t address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

/// Who takes parts, for messages: the kernel, and the function that says how much it needs.
struct WorkspaceUser {
  const char* kernel = "";
  const char* bytes = "";
};

/// Hands out parts of a workspace, one after the other, each aligned to tensor::kAlignment.
class WorkspaceParts {
 public:
  WorkspaceParts(const tensor::Tensor& memory, const WorkspaceUser& user)
      : memory_(memory), user_(user), next_(memory.data) {
    next_ += (tensor::kAlignment - address(next_) % tensor::kAlignment) % tensor::kAlignment;
  }

  /// Throws Error(failed) if the workspace has too few bytes.
  std::byte* take(std::size_t bytes) {
    std::byte* const part = next_;
    next_ += tensor::aligned(bytes);
    if (memory_.data == nullptr || next_ > memory_.data + memory_.bytes()) {
      base::fail(base::ExitCode::failed, "{}: workspace of {} bytes; needed are at least {} ({})", user_.kernel,
                 memory_.bytes(), next_ - memory_.data, user_.bytes);
    }
    return part;
  }

  /// What has not been handed out.
  tensor::Tensor rest() const { return {next_, {memory_.data + memory_.bytes() - next_}, tensor::DType::u8}; }

 private:
  tensor::Tensor memory_;
  WorkspaceUser user_;
  std::byte* next_;
};

}  // namespace shard8::kernels::cuda

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "base/error.hpp"
#include "tensor/tensor.hpp"

namespace shard8::kernels {

/// Calls f(std::type_identity<T>{}) with T the element type of fp32 or bf16. Throws Error(failed) for another dtype.
template <class F>
void dispatch_real(tensor::DType dtype, const char* kernel, const F& f) {
  switch (dtype) {
    case tensor::DType::fp32:
      return f(std::type_identity<float>{});
    case tensor::DType::bf16:
      return f(std::type_identity<tensor::BFloat16>{});
    default:
      break;
  }
  base::fail(base::ExitCode::failed, "{}: dtype {}; allowed are fp32 and bf16", kernel, tensor::name_of(dtype));
}

/// Calls f(std::type_identity<Q>{}) with Q the format of e4m3 or e5m2. Throws Error(failed) for another dtype.
template <class F>
void dispatch_float8(tensor::DType dtype, const char* kernel, const F& f) {
  switch (dtype) {
    case tensor::DType::e4m3:
      return f(std::type_identity<tensor::E4M3>{});
    case tensor::DType::e5m2:
      return f(std::type_identity<tensor::E5M2>{});
    default:
      break;
  }
  base::fail(base::ExitCode::failed, "{}: dtype {}; allowed are e4m3 and e5m2", kernel, tensor::name_of(dtype));
}

/// Throws Error(failed) unless the tensor has `count` elements.
inline void require_count(const char* kernel, const char* name, const tensor::Tensor& t, std::int64_t count) {
  SHARD8_REQUIRE(t.count() == count, "{}: {} is {}, {} elements needed", kernel, name, tensor::to_string(t.shape),
                 count);
}

/// Throws Error(failed) unless the workspace has at least `bytes` bytes.
inline void require_workspace(const char* kernel, const tensor::Tensor& workspace, std::size_t bytes) {
  SHARD8_REQUIRE(workspace.bytes() >= bytes, "{}: workspace of {} bytes, {} needed", kernel, workspace.bytes(), bytes);
}

}  // namespace shard8::kernels

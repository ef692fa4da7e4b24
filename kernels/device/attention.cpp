// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.hpp"

#include "kernels/check/arguments.hpp"
#include "kernels/device/parts.hpp"
#include "kernels/kokkos/portable.hpp"
#include "kernels/planned/device_memory.hpp"
#include "tensor/cuda/device.hpp"

namespace shard8::kernels {
namespace {

using tensor::cuda::stream_of;

void require_shape(const char* kernel, const AttentionShape& s) {
  SHARD8_REQUIRE(s.kv_heads > 0 && s.heads % s.kv_heads == 0, "{}: {} heads on {} kv heads; must divide", kernel,
                 s.heads, s.kv_heads);
}

std::span<std::byte> bytes_of(const Workspace& workspace) { return {workspace.memory.data, workspace.memory.bytes()}; }

}  // namespace

void attention_forward(const tensor::Exec& exec, const tensor::Tensor& o, const tensor::Tensor& lse,
                       const tensor::Tensor& qkv, const AttentionShape& shape, const Workspace& workspace) {
  constexpr auto kName = "attention_forward";
  require_shape(kName, shape);
  require_count(kName, "o", o, shape.tokens() * shape.heads * shape.head_dim);
  require_count(kName, "lse", lse, shape.tokens() * shape.heads);
  require_count(kName, "qkv", qkv, shape.tokens() * shape.qkv_columns());
  if (qkv.dtype == tensor::DType::bf16) {
    const cuda::SdpaForward operands{o.as<tensor::BFloat16>(), lse.as<float>(), qkv.data};
    if (parts_of(workspace, kName).sdpa.forward(stream_of(exec), operands, shape, bytes_of(workspace))) return;
  }
  portable_attention_forward(exec, o, lse, qkv, shape);
}

void attention_backward(const tensor::Exec& exec, const tensor::Tensor& dqkv, const tensor::Tensor& dout,
                        const tensor::Tensor& o, const tensor::Tensor& qkv, const tensor::Tensor& lse,
                        const AttentionShape& shape, const Workspace& workspace) {
  constexpr auto kName = "attention_backward";
  require_shape(kName, shape);
  for (const auto& [name, t] : {std::pair("dqkv", &dqkv), std::pair("qkv", &qkv)}) {
    require_count(kName, name, *t, shape.tokens() * shape.qkv_columns());
  }
  for (const auto& [name, t] : {std::pair("dout", &dout), std::pair("o", &o)}) {
    require_count(kName, name, *t, shape.tokens() * shape.heads * shape.head_dim);
  }
  require_count(kName, "lse", lse, shape.tokens() * shape.heads);
  if (qkv.dtype == tensor::DType::bf16) {
    using tensor::BFloat16;
    const cuda::SdpaBackward operands{dqkv.as<BFloat16>(), dout.as<BFloat16>(), o.as<BFloat16>(), qkv.data,
                                      lse.as<float>()};
    if (parts_of(workspace, kName).sdpa.backward(stream_of(exec), operands, shape, bytes_of(workspace))) return;
  }
  portable_attention_backward(exec, dqkv, dout, o, qkv, lse, shape);
}

std::size_t attention_workspace_bytes(const AttentionShape& shape, int) { return cuda::sdpa_workspace_bytes(shape); }

}  // namespace shard8::kernels

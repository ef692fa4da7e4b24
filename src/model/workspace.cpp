// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/workspace.hpp"

#include <algorithm>

#include "kernels/attention.hpp"
#include "kernels/embedding.hpp"
#include "kernels/gemm.hpp"
#include "kernels/norm.hpp"
#include "tensor/exec.hpp"

namespace shard8::model {

std::size_t workspace_bytes(const Dims& d, const fp8::Recipe& recipe, int threads) {
  const std::int64_t t = d.tokens();
  const auto plain = [&](std::int64_t in, std::int64_t out) {
    return kernels::gemm_workspace_bytes(d.compute, t, in, out);
  };
  const auto gemm = [&](std::int64_t in, std::int64_t out) {
    if (!recipe.on()) return plain(in, out);
    const auto scaling = recipe.by_rows(fp8::Role::input);
    const bool transposed = d.tensor == 1 && recipe.transposed(false);
    return std::max(plain(in, out), kernels::gemm_workspace_bytes(recipe.forward, t, in, out, scaling, transposed));
  };
  return std::max({gemm(d.hidden, d.qkv_width()), gemm(d.q_width(), d.hidden), gemm(d.hidden, d.fc1_width()),
                   gemm(d.ffn, d.hidden), plain(d.hidden, d.vocab_local),
                   kernels::norm_workspace_bytes(t, std::max({d.hidden, d.fc1_width(), d.qkv_width()})),
                   kernels::embedding_workspace_bytes(t, d.vocab_local),
                   kernels::attention_workspace_bytes(
                       {d.batch, d.seq, d.heads, d.kv_heads, d.head_dim, d.deterministic}, threads)});
}

std::int64_t head_chunk_tokens(const Dims& d) {
  // Of a host what fits its caches; of a device enough to keep it busy, and to make little of what
  // each chunk adds to the head's gradient.
  constexpr std::int64_t kLogitsBytes = std::int64_t{tensor::kDevice ? 256 : 32} << 20;
  constexpr std::int64_t kFewest = 64;
  const std::int64_t fit = kLogitsBytes / (static_cast<std::int64_t>(sizeof(float)) * d.vocab_local);
  return std::min(d.tokens(), std::max(kFewest, fit));
}

}  // namespace shard8::model

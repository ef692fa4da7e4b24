// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "deck/load.hpp"
#include "project/stack.hpp"

namespace shard8::test {

/// The deck of the tests of stacks: a small llama on four shards.
inline constexpr std::int64_t kHidden = 256, kFfn = 512, kLayers = 3, kHeads = 4, kKvHeads = 2, kVocab = 1000,
                              kSeq = 128, kMicroBatch = 2, kShard = 4;
inline constexpr std::int64_t kTokens = kSeq * kMicroBatch, kQkv = kHidden + 2 * kHidden / kHeads * kKvHeads;
/// Elements of the parts of the model.
inline constexpr std::int64_t kAttentionWeights = kHidden * kQkv + kHidden * kHidden + 2 * kHidden,
                              kProjection = kHidden * kFfn, kLayer = kAttentionWeights + 3 * kProjection,
                              kTable = kVocab * kHidden, kRoot = kTable + kHidden;

inline deck::Config deck_of(const std::vector<std::string>& overrides = {}) {
  const std::string text =
      fmt::format(R"(
model: {{hidden: {}, ffn: {}, layers: {}, heads: {}, kv_heads: {}, vocab: {}, seq: {}}}
mesh: {{shard: {}, device: cuda}}
fsdp: {{prefetch: 1}}
optimizer: {{lr: 0.01}}
data: {{kind: synthetic, batch: {}, micro_batch: {}}}
run: {{steps: 4}}
)",
                  kHidden, kFfn, kLayers, kHeads, kKvHeads, kVocab, kSeq, kShard, kShard * kMicroBatch, kMicroBatch);
  return deck::load_text(text, "stack.yaml", overrides).config;
}

inline project::Stack stack_of(const std::string& groups) {
  return project::read_stack_text("stack:\n  format: 1\n  name: test\n" + groups, "stack.yaml");
}

}  // namespace shard8::test

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace shard8::deck {

/// One deck in both spellings. It has every kind of value, quotes, comments, and letters in both cases.
inline constexpr const char* kYamlDeck = R"(# a comment
model:
  arch: llama
  hidden: 64        # comment
  ffn: 192
  layers: 2
  heads: 4
  kv_heads: 2
  vocab: 256
  seq: 32
  norm_eps: 1.0d-6
  init_seed: 18446744073709551615
mesh: {shard: 2, tensor: 2}
precision:
  compute: "fp32"
  deterministic: false
fp8:
  recipe: delayed
  format: hybrid
  amax_history: 16
  amax_algo: most_recent
  margin: -1
  power_of_2_scales: false
  weights: bf16
  first_layers_bf16: 1
  last_layers_bf16: 0
fsdp:
  reshard_after_forward: .FALSE.
  prefetch: 0
  gather: fp8
optimizer:
  lr: 1e-3
  min_lr: .0001
  warmup: +4
  beta2: 0.99
  moments: bf16
  master: fp32
data:
  kind: synthetic
  path: 'it''s a path'
  batch: 8
  micro_batch: 3
run:
  steps: 20
output:
  dir: "out # not a comment"
)";

inline constexpr const char* kNamelistDeck = R"(! a comment
&model
  Arch = 'llama', HIDDEN = 64 ! comment with '
  ffn=192 layers = 2, heads = 4
  kv_heads
    = 2
  vocab = 256, seq = 32,
  norm_eps = 1.0d-6, init_seed = 18446744073709551615
/
&MESH shard = 2, tensor = 2 /
$precision compute = "fp32" deterministic = F $end
&FP8
  recipe = 'delayed', Format = 'hybrid', amax_history = 16, amax_algo = "most_recent"
  margin = -1, power_of_2_scales = .false., weights = 'bf16'
  first_layers_bf16 = 1, last_layers_bf16 = 0 /
&fsdp
  reshard_after_forward = .FALSE.
  prefetch = 0
  gather = 'fp8'
&end
&optimizer lr = 1e-3, min_lr = .0001, warmup = +4, beta2 = 0.99, moments = 'bf16', master = 'fp32'/
&data
  kind = 'synthetic'
  path = 'it''s a path'
  batch = 8
  micro_batch = 3
/
&run steps = 20 / ! the end
&output dir = "out # not a comment" &END
)";

/// The smallest valid deck: only the required keys.
inline constexpr const char* kLeastDeck = R"(
model: {hidden: 64, ffn: 192, layers: 2, heads: 4, vocab: 256, seq: 32}
optimizer: {lr: 1e-3}
data: {kind: synthetic, batch: 8}
run: {steps: 20}
)";

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Makes the repository's root the working directory until the end of the scope.
class AtRoot {
 public:
  AtRoot() : before_(std::filesystem::current_path()) { std::filesystem::current_path(SHARD8_SOURCE_DIR); }
  ~AtRoot() { std::filesystem::current_path(before_); }
  AtRoot(const AtRoot&) = delete;
  AtRoot& operator=(const AtRoot&) = delete;

 private:
  std::filesystem::path before_;
};

}  // namespace shard8::deck

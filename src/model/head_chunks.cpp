// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/head_chunks.hpp"

namespace shard8::model {

HeadChunks HeadChunks::make(const Dims& d) {
  // Chosen: on hosts as many logits as fit the caches. On devices enough to keep the device busy, and few enough chunks
  // that reading and writing the head's gradient for each takes little time.
  const std::int64_t logits_bytes = std::int64_t{d.device ? 256 : 32} << 20;
  constexpr std::int64_t kFewest = 64;
  const std::int64_t usual =
      std::max(kFewest, logits_bytes / (static_cast<std::int64_t>(sizeof(float)) * d.vocab_local));
  const std::int64_t fit = d.head_tokens > 0 ? d.head_tokens : usual;
  HeadChunks chunks{d.tokens(), d.tokens_local(), 0};
  if (d.tensor == 1) {
    chunks.most = std::min(fit, chunks.tokens);
  } else if (fit >= chunks.local) {
    chunks.most = std::min<std::int64_t>(fit / chunks.local, d.tensor) * chunks.local;
  } else {
    const std::int64_t parts = (chunks.local + fit - 1) / fit;
    chunks.most = (chunks.local + parts - 1) / parts;
  }
  return chunks;
}

}  // namespace shard8::model

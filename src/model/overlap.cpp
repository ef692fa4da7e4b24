// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/overlap.hpp"

#include "deck/overlap.hpp"

namespace shard8::model {

Overlap Overlap::make(const deck::Config& deck) {
  Overlap overlap;
  if (!deck.overlap.enable || deck.mesh.tensor == 1) return overlap;
  const auto on = [](deck::OverlapMethod method) { return method != deck::OverlapMethod::off; };
  const auto& keys = deck.overlap;
  overlap.qkv = {on(keys.qkv_dgrad), on(keys.qkv_wgrad)};
  overlap.fc1 = {on(keys.fc1_dgrad), on(keys.fc1_wgrad)};
  overlap.head_scatter = on(keys.head_dgrad);
  overlap.proj.gather = overlap.fc2.wgrad_deferred = on(keys.proj_dgrad) && deck::fc2_wgrad_can_wait(deck);
  overlap.fc2.gather = overlap.proj.wgrad_deferred = on(keys.fc2_dgrad) && deck::proj_wgrad_can_wait(deck);
  return overlap;
}

}  // namespace shard8::model

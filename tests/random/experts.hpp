// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/random/random_deck.hpp"

// Generators for the keys of experts, in the order in which they run. All but the first change nothing of a deck
// without experts, but for mesh.expert, which becomes 1.

namespace shard8::test {

/// The number of which the sizes of FP8 products on a rank must be multiples (docs/fp8_reference.md); 1 without a
/// recipe.
std::int64_t multiple(const deck::Config& config);

void draw_experts(RandomDeck& deck, Draw& draw);
/// mesh.expert: any that divides the ranks of shard and tensor, and the experts.
void draw_expert(RandomDeck& deck, Draw& draw);
void draw_experts_per_token(RandomDeck& deck, Draw& draw);
void draw_experts_ffn(RandomDeck& deck, Draw& draw);
void draw_balance(RandomDeck& deck, Draw& draw);
void draw_routing(RandomDeck& deck, Draw& draw);
void draw_skew(RandomDeck& deck, Draw& draw);
void draw_capacity(RandomDeck& deck, Draw& draw);
void draw_dispatch(RandomDeck& deck, Draw& draw);
void draw_dense_layers(RandomDeck& deck, Draw& draw);

}  // namespace shard8::test

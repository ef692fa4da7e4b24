// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/random/random_deck.hpp"

#include <algorithm>
#include <span>
#include <vector>

namespace shard8::test {

using deck::MoeRouting;

std::int64_t multiple(const deck::Config& c) {
  switch (c.fp8.recipe) {
    case deck::Recipe::none:
      return 1;
    case deck::Recipe::block:
      return 128;
    case deck::Recipe::mxfp8:
      return 32;
    default:
      return 16;
  }
}

void draw_experts(RandomDeck& d, Draw& draw) {
  if (d.config.model.arch != deck::Arch::llama || draw.chance(0.55)) return;
  d.config.model.moe.experts = draw.one_of({1, 2, 3, 4, 6, 8, 12});
}

void draw_expert(RandomDeck& d, Draw& draw) {
  d.config.mesh.expert = 1;
  if (!d.config.model.moe.on()) return;
  std::vector<std::int64_t> divisors;
  const std::int64_t model_ranks = d.config.mesh.shard * d.config.mesh.tensor;
  for (std::int64_t i = 1; i <= model_ranks; ++i)
    if (model_ranks % i == 0 && d.config.model.moe.experts % i == 0) divisors.push_back(i);
  d.config.mesh.expert = draw.one_of(std::span<const std::int64_t>(divisors));
}

namespace {

/// Calls draw_key(moe) for a model with experts.
template <class Key>
void with_experts(RandomDeck& d, const Key& draw_key) {
  if (d.config.model.moe.on()) draw_key(d.config.model.moe);
}

}  // namespace

void draw_experts_per_token(RandomDeck& d, Draw& draw) {
  with_experts(d, [&](auto& moe) { moe.experts_per_token = draw.between(1, std::min<std::int64_t>(moe.experts, 4)); });
}

void draw_experts_ffn(RandomDeck& d, Draw& draw) {
  // Experts are not cut by tensor, so their widths are multiples on every mesh.
  const std::int64_t step = multiple(d.config), most = std::max<std::int64_t>(1, 48 / step);
  with_experts(d, [&](auto& moe) { moe.ffn = step * draw.between(1, most); });
}

void draw_balance(RandomDeck& d, Draw& draw) {
  with_experts(d, [&](auto& moe) { moe.balance = draw.chance(0.4) ? 0 : draw.log_real(1e-3, 1e-1); });
}

void draw_routing(RandomDeck& d, Draw& draw) {
  with_experts(d, [&](auto& moe) {
    moe.routing = draw.one_of({MoeRouting::learned, MoeRouting::learned, MoeRouting::balanced, MoeRouting::zipf});
  });
}

void draw_skew(RandomDeck& d, Draw& draw) {
  with_experts(d, [&](auto& moe) {
    if (moe.routing == MoeRouting::zipf) moe.skew = draw.real(0, 4);
  });
}

void draw_capacity(RandomDeck& d, Draw& draw) {
  with_experts(d, [&](auto& moe) { moe.capacity = draw.chance(0.4) ? 1 : draw.real(1, 4); });
}

void draw_dispatch(RandomDeck& d, Draw& draw) {
  using deck::MoeDispatch;
  with_experts(d, [&](auto& moe) {
    if (d.config.fp8.per_tensor()) moe.dispatch = draw.chance(0.5) ? MoeDispatch::fp8 : MoeDispatch::bf16;
  });
}

void draw_dense_layers(RandomDeck& d, Draw& draw) {
  with_experts(
      d, [&](auto& moe) { moe.dense_layers = draw.chance(0.5) ? 0 : draw.between(0, d.config.model.layers - 1); });
}

}  // namespace shard8::test

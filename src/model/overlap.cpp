// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/overlap.hpp"

#include <array>
#include <string_view>

#include "deck/overlap.hpp"
#include "tensor/exec.hpp"

namespace shard8::model {

namespace {

std::string_view name_of(ExchangeMethod method) {
  constexpr std::array<std::string_view, 5> names{"off", "bulk", "direct", "pipeline", "ring"};
  return names[static_cast<std::size_t>(method)];
}

}  // namespace

Overlap Overlap::make(const deck::Config& deck) {
  Overlap overlap;
  if (!deck.overlap.enable || !deck.mesh.exchanges()) return overlap;
  const deck::OverlapConfig& keys = deck.overlap;
  using Linear = deck::OverlapLinear;
  using Method = ExchangeMethod;
  // auto is the first method of a key. `beside`: the linear whose product runs beside the exchange.
  const auto set = [&](TensorExchange& exchange, bool on, Linear beside, Method method) {
    if (on && deck::large_enough(deck, beside)) exchange.method = method;
  };
  const auto gather = [&](TensorExchange& exchange, deck::GatherMethod key, Linear beside) {
    const bool ring = key == deck::GatherMethod::ring;
    set(exchange, key != deck::GatherMethod::off, beside, ring ? Method::ring : Method::direct);
    if (tensor::kDevice) exchange.splits = static_cast<int>(keys.splits);
  };
  gather(overlap.qkv.forward, keys.qkv_fprop, Linear::qkv);
  gather(overlap.fc1.forward, keys.fc1_fprop, Linear::fc1);
  gather(overlap.head_gather, keys.head_fprop, Linear::head);
  const auto scatter = [&](TensorExchange& exchange, deck::ScatterMethod key, Linear beside) {
    const bool ring = key == deck::ScatterMethod::ring;
    set(exchange, key != deck::ScatterMethod::off, beside, ring ? Method::ring : Method::pipeline);
    if (tensor::kDevice) exchange.chunks = deck::pipeline_chunks(deck);
  };
  scatter(overlap.proj.forward, keys.proj_fprop, Linear::proj);
  scatter(overlap.fc2.forward, keys.fc2_fprop, Linear::fc2);
  const auto bulk = [&](TensorExchange& exchange, deck::OverlapMethod key, Linear beside, bool possible = true) {
    set(exchange, key != deck::OverlapMethod::off && possible, beside, Method::bulk);
  };
  bulk(overlap.qkv.gather, keys.qkv_dgrad, Linear::qkv);
  bulk(overlap.fc1.gather, keys.fc1_dgrad, Linear::fc1);
  bulk(overlap.qkv.scatter, keys.qkv_wgrad, Linear::qkv);
  bulk(overlap.fc1.scatter, keys.fc1_wgrad, Linear::fc1);
  bulk(overlap.head_scatter, keys.head_dgrad, Linear::head);
  bulk(overlap.proj.gather, keys.proj_dgrad, Linear::fc2, deck::fc2_wgrad_can_wait(deck));
  bulk(overlap.fc2.gather, keys.fc2_dgrad, Linear::proj, deck::proj_wgrad_can_wait(deck));
  overlap.fc2.wgrad_deferred = overlap.proj.gather.hidden();
  overlap.proj.wgrad_deferred = overlap.fc2.gather.hidden();
  return overlap;
}

profile::ExchangeMethods Overlap::methods() const {
  auto methods = profile::all_off();
  for (const TensorExchange& exchange : {qkv.forward, qkv.gather, qkv.scatter, fc1.forward, fc1.gather, fc1.scatter,
                                         proj.forward, proj.gather, fc2.forward, fc2.gather, head_gather, head_scatter})
    methods[static_cast<std::size_t>(exchange.name)] = name_of(exchange.method);
  return methods;
}

}  // namespace shard8::model

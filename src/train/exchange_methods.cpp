// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/exchange_methods.hpp"

#include "deck/choices.hpp"

namespace shard8::train {

using profile::Exchange;

profile::ExchangeMethods exchange_methods(const deck::Config& config) {
  profile::ExchangeMethods methods = profile::all_off();
  const deck::OverlapConfig& deck = config.overlap;
  if (!deck.enable || config.mesh.tensor == 1) return methods;
  const auto set = [&](Exchange exchange, deck::OverlapMethod method) {
    const auto used = method == deck::OverlapMethod::automatic ? deck::OverlapMethod::bulk : method;
    methods[static_cast<std::size_t>(exchange)] = deck::to_string(used);
  };
  set(Exchange::qkv_dgrad, deck.qkv_dgrad);
  set(Exchange::fc1_dgrad, deck.fc1_dgrad);
  set(Exchange::qkv_wgrad, deck.qkv_wgrad);
  set(Exchange::fc1_wgrad, deck.fc1_wgrad);
  set(Exchange::head_dgrad, deck.head_dgrad);
  return methods;
}

}  // namespace shard8::train

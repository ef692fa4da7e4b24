// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "model/overlap.hpp"

#include <algorithm>

#include "deck/overlap.hpp"
#include "operation/device.hpp"

namespace shard8::model {

Overlap Overlap::make(const deck::Config& deck) {
  Overlap overlap{.methods = deck::exchange_methods(deck)};
  if (operation::on_device(deck.mesh) && overlap.any()) {
    overlap.splits = static_cast<int>(deck.overlap.splits);
    overlap.chunks = deck::pipeline_chunks(deck);
  }
  return overlap;
}

ColumnExchanges Overlap::qkv() const {
  return {of(Exchange::qkv_fprop), of(Exchange::qkv_dgrad), of(Exchange::qkv_wgrad)};
}

ColumnExchanges Overlap::fc1() const {
  return {of(Exchange::fc1_fprop), of(Exchange::fc1_dgrad), of(Exchange::fc1_wgrad)};
}

RowExchanges Overlap::proj() const {
  return {of(Exchange::proj_fprop), of(Exchange::proj_dgrad), of(Exchange::fc2_dgrad).hidden()};
}

RowExchanges Overlap::fc2() const {
  return {of(Exchange::fc2_fprop), of(Exchange::fc2_dgrad), of(Exchange::proj_dgrad).hidden()};
}

bool Overlap::by_parts() const {
  return std::ranges::any_of(methods,
                             [](ExchangeMethod m) { return m != ExchangeMethod::off && m != ExchangeMethod::bulk; });
}

}  // namespace shard8::model

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "deck/config.hpp"
#include "profile/exchange.hpp"

namespace shard8::train {

/// The method that a training of this deck uses for each exchange of the tensor group. "off" for each where
/// overlap.enable is false or the group has one rank.
profile::ExchangeMethods exchange_methods(const deck::Config& config);

}  // namespace shard8::train

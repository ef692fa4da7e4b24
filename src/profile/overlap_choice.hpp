// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "profile/exchange.hpp"

namespace shard8::profile {

/// What the keys `auto` of the deck's group overlap became in a run, and from which times.
struct OverlapChoice {
  struct Row {
    Exchange exchange{};
    ExchangeMethod method{};  ///< that auto stands for
    /// Seconds of the exchange and its product in the plain order, and with the method: the median over the blocks.
    double plain_s = 0, method_s = 0;
    bool taken = false;  ///< the run uses the method; false: off

    ExchangeMethod chosen() const { return taken ? method : ExchangeMethod::off; }
  };
  std::string from;       ///< "measured", or the file or checkpoint that the choice was read from
  std::vector<Row> rows;  ///< empty: no key was `auto`

  /// `methods` with the choice in place of every `auto`. Without a row an exchange is off.
  ExchangeMethods resolve(ExchangeMethods methods) const;
};

/// The table of the printed header, and the overrides of a deck that has the same methods without `auto`.
std::string to_text(const OverlapChoice& choice);

}  // namespace shard8::profile

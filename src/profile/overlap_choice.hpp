// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace shard8::profile {

/// What the keys `auto` of the deck's group overlap became in a run, and from which times.
struct OverlapChoice {
  struct Row {
    std::string key;     ///< of the group overlap
    std::string method;  ///< the method that the key has
    /// Seconds of the exchange and its product in the plain order, and with the method: the median over the blocks.
    double plain_s = 0, method_s = 0;
    bool taken = false;  ///< the run uses the method; false: off

    std::string chosen() const { return taken ? method : "off"; }
  };
  std::string from;       ///< "measured", or the file or checkpoint that the choice was read from
  std::vector<Row> rows;  ///< empty: no key was `auto`
};

/// The table of the printed header, and the overrides of a deck that has the same methods without `auto`.
std::string to_text(const OverlapChoice& choice);

}  // namespace shard8::profile

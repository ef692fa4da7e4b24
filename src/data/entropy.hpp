// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "data/dataset.hpp"

namespace shard8::data {

/// The entropy, in nats, of the distribution with these counts: ln(n) - sum(c·ln(c))/n with
/// n = sum(c). The loss of the best model that knows no context. 0 for no counts.
double entropy_nats(std::span<const std::uint64_t> counts);

/// The unigram entropy of the whole data, which it reads: call it on one rank.
double unigram_entropy(const Dataset& dataset);

}  // namespace shard8::data

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tests/random/random_deck.hpp"

namespace shard8::test {

/// What model.init_file says of a file in this folder.
std::string weight_path(WeightFile kind, const std::string& folder);

/// Writes the random weights of a deck, which must be loaded, to a new folder, in the layouts of Hugging Face and
/// without loss. One rank calls it. Errors of the libraries that write.
void write_weights(WeightFile kind, const std::string& folder, const deck::Config& config);

}  // namespace shard8::test

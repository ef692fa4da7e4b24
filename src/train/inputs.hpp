// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "train/assembly.hpp"
#include "train/restart_deck.hpp"

namespace shard8::train {

/// The inputs of a training by content, after Assembly::open_files(): data that are not synthetic, and the weights of
/// model.init_file. Reads a bounded sample of both. One rank calls it. `say` gets warnings, such as data that look
/// unfinished. Errors are those of reading; a token outside the vocabulary is Error(deck).
Inputs inputs_of(const Assembly& assembly, const std::function<void(const std::string&)>& say);

}  // namespace shard8::train

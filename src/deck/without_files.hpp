// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "deck/config.hpp"

namespace shard8::deck {

/// The training of `config` as benchmarks and calibrations run it: on synthetic data, with initial weights from the
/// seed, without validation, and computing even where `config` is a skeleton. No file of the user's is read. Every
/// operation of a training step stays.
Config without_files(Config config);

}  // namespace shard8::deck

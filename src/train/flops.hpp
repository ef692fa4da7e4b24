// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "deck/config.hpp"

namespace shard8::train {

/// Model FLOPs of one token, forward and backward: 6·(parameters in matrix products) +
/// 6·layers·hidden·seq (attention, causal). Recomputation is not counted.
double model_flops_per_token(const deck::ModelConfig& model);

}  // namespace shard8::train

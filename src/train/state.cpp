// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include "train/state.hpp"

#include <utility>

namespace shard8::train {

State::State(const Setup& setup, tensor::ArenaSet set)
    : arenas(std::move(set)),
      units(model::unit_shapes(setup.units, setup.weights), setup.fsdp, arenas),
      scaling(setup.weights.recipe, arenas[tensor::MemoryKind::weights]),
      activations(model::Activations::allocate(setup.dims, setup.config.model.layers, setup.config.model.recompute,
                                               setup.weights.recipe, setup.threads, arenas)),
      optimizer(setup.config.optimizer, units, arenas),
      squares(arenas[tensor::MemoryKind::buffers].allocate({static_cast<std::int64_t>(sizeof(double))},
                                                           tensor::DType::u8)) {}

tensor::MemoryBytes state_bytes(const Setup& setup) { return State(setup, tensor::ArenaSet::measure()).arenas.bytes(); }

}  // namespace shard8::train

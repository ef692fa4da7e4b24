// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "deck/config.hpp"
#include "tensor/exec.hpp"

namespace shard8::deck {

/// Whether the steps of a deck run on devices. A deck that does not say so (mesh.device) runs where this program was
/// built for.
inline bool on_device(const MeshConfig& mesh) {
  return mesh.device == Device::automatic ? tensor::kDevice : mesh.device == Device::cuda;
}

}  // namespace shard8::deck

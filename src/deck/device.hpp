// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// What this build makes of a deck. Apart from choices.hpp, whose users need not know Kokkos, and not installed.
#pragma once

#include "deck/config.hpp"
#include "tensor/runtime.hpp"

namespace shard8::deck {

/// Whether the steps of a deck run on devices. A deck that does not say so (mesh.device) runs where this program was
/// built for, and so does a step without a deck: on_device({}). A step that runs elsewhere can be recorded, but not
/// run.
inline bool on_device(const MeshConfig& mesh) {
  return mesh.device == Device::automatic ? tensor::kDevice : mesh.device == Device::cuda;
}

/// Whether hosts carry the collectives of a skeleton run, also those of a step that runs on devices: then only memory
/// that collectives move exists.
inline bool carried_by_hosts(const RunConfig& run) {
  return run.skeleton == Skeleton::communication && !tensor::kDevice;
}

}  // namespace shard8::deck

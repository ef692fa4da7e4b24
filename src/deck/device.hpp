// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// What this build makes of a deck. Apart from choices.hpp, whose users need not know Kokkos, and not installed.
#pragma once

#include "deck/config.hpp"
#include "tensor/runtime.hpp"

namespace shard8::deck {

/// Whether the steps of a deck run on devices. With `mesh.device: auto`, and without a deck (on_device({})), they do in
/// a build for devices. A step for devices can be recorded in a build for hosts, and the other way round, but not run.
inline bool on_device(const MeshConfig& mesh) {
  return mesh.device == Device::automatic ? tensor::kDevice : mesh.device == Device::cuda;
}

/// Whether hosts carry the collectives of a skeleton run, also those of a step that runs on devices: then only memory
/// that collectives move exists.
inline bool carried_by_hosts(const RunConfig& run) {
  return run.skeleton == Skeleton::communication && !tensor::kDevice;
}

}  // namespace shard8::deck

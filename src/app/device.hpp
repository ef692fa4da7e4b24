// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/device.hpp"
#include "comm/environment.hpp"
#include "comm/node.hpp"
#include "deck/config.hpp"
#include "tensor/exec.hpp"
#include "train/device.hpp"

namespace shard8::app {

/// Error(environment) when the deck asks for a device or a backend that this program was not built for.
void require_build(const deck::MeshConfig& mesh);

/// The same for `plan` and `check`, which need no device: a build for hosts plans steps on CUDA devices, too.
void require_planned(const deck::MeshConfig& mesh);

/// The index of this rank's device among those that the process sees; 0 on hosts. Each rank of a node has a device of
/// its own, unless `mesh.share_devices` is set. Collective. AgreedError(environment), with both numbers, when the deck
/// asks for a device or backend that this program was not built for, or a node has more ranks than devices and may not
/// share them.
int choose_device(const comm::Communicator& world, const deck::MeshConfig& mesh, const comm::Node& node);

/// Has the tensors of `world`, and of what is split from it, moved between devices; nothing on hosts.
/// Collective. A collective that hangs for longer than `limits` allow, or fails, ends the job. `share_devices`: ranks
/// of a node may have the same device.
void attach_device(comm::Communicator& world, const tensor::Exec& exec, const comm::Environment& environment,
                   const comm::HangLimits& limits, bool share_devices);

/// "devices host" or "devices cuda: 4 of NVIDIA H200, 139.8 GiB, compute capability 9.0", for `info`.
std::vector<std::string> describe_devices();

using train::device_name;
using train::gpu_versions;
/// Bytes of this rank's device that any process has taken; 0 on hosts.
std::size_t device_memory_taken();

}  // namespace shard8::app

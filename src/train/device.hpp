// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/device.hpp"
#include "comm/mesh.hpp"
#include "profile/step_timer.hpp"
#include "tensor/runtime.hpp"
#include "train/setup.hpp"

namespace shard8::train {

/// Makes a clock that times the steps of `exec`. On hosts it reads the host's clock. On a device it records events in
/// the stream of `exec`, and reads their times when the step has ended.
std::unique_ptr<profile::StepClock> make_clock(const tensor::Exec& exec);

/// Throws Error(environment), with the bytes that are needed and free, when this rank's device has not enough free
/// memory for a run. Does nothing on hosts. Looks at this rank's device only; communicates nothing.
void check_device_memory(const Setup& setup);

/// Whether the ranks of every expert group of the mesh can write to each other's memory. Otherwise no exchange of
/// experts overlaps with products. Collective over the mesh.
bool can_push_rows(const comm::Mesh& mesh);
/// What a run and a benchmark say if can_push_rows() is false.
inline constexpr auto kCannotPushRows = "not all ranks of an expert group can write to each other's memory";

/// What CUDA calls this rank's device: "NVIDIA H200"; empty on hosts.
std::string device_name();
/// The name of this rank's device, and the versions of driver, cuda, cublaslt, cudnn and nccl, in this order. The texts
/// are empty on hosts. `device` is that of the communicator `world`; null on hosts.
std::vector<std::pair<std::string, std::string>> gpu_versions(const comm::Device* device);

}  // namespace shard8::train

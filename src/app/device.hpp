// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/device.hpp"
#include "comm/environment.hpp"
#include "comm/node.hpp"
#include "deck/config.hpp"
#include "profile/energy.hpp"
#include "tensor/runtime.hpp"
#include "train/device.hpp"
#include "train/setup.hpp"

#if defined(SHARD8_CUDA)
#include <array>
#include <span>
#include <utility>

#include "bench/bench.hpp"
#include "bench/collectives.hpp"
#endif

namespace shard8::app {

/// Error(environment) when the deck requests a device or a backend that this program was not built for.
void require_build(const deck::MeshConfig& mesh);

/// As require_build(), for a run: a skeleton of the communication runs on hosts also where its step is one of devices.
/// Error(environment) also for experts on devices.
void require_runnable(const deck::Config& config);

/// As require_build(), for `plan` and `check`, which need no device: a build for hosts plans steps on CUDA devices,
/// too. Error(environment) also for experts on devices.
void require_planned(const deck::Config& config);
/// Whether this build can only plan the steps of such a mesh: the steps run on CUDA devices, the build on hosts.
bool only_plans(const deck::MeshConfig& mesh);

/// Error(environment) where this program was built for hosts. `what` times what devices do: "bench gemm".
void require_devices(std::string_view what);

/// The index of this rank's device among those that the process sees; 0 on hosts. Each rank of a node has a device of
/// its own, unless `mesh.share_devices` is set. Collective. AgreedError(environment), with both numbers, when the deck
/// requests a device or backend that this program was not built for, or a node has more ranks than devices and may not
/// share them.
int choose_device(const comm::Communicator& world, const deck::Config& config, const comm::Node& node);

/// Has the tensors of `world`, and of what is split from it, moved between devices; nothing on hosts.
/// Collective. A collective that hangs for longer than `limits` allow, or fails, ends the job. `share_devices`: ranks
/// of a node may have the same device.
void attach_device(comm::Communicator& world, const tensor::Exec& exec, const comm::Environment& environment,
                   const comm::HangLimits& limits, bool share_devices);

/// What moves data and what computes in this build, for `info`.
std::string describe_backends();
/// "devices host" or "devices cuda: 4 of NVIDIA H200, 139.8 GiB, compute capability 9.0", for `info`.
std::vector<std::string> describe_devices();

using train::device_name;
using train::gpu_versions;

/// The names of this rank's device, once it is chosen; nothing on hosts, but for the environment variable
/// SHARD8_NVML_DEVICE, which tests set.
std::optional<profile::DeviceNames> device_names();

/// Bytes of memory that are taken now: on a device by all processes, on hosts resident in this process.
std::uint64_t memory_taken();
/// The most bytes that were taken so far on hosts; on a device those that are taken now.
std::uint64_t memory_peak();

#if defined(SHARD8_CUDA)

/// The collectives that `bench collective` and `calibrate` time on devices.
inline constexpr std::array kTimedCollectives{std::pair{profile::Collective::all_gather, tensor::DType::u8},
                                              std::pair{profile::Collective::reduce_scatter, tensor::DType::fp32},
                                              std::pair{profile::Collective::reduce_scatter, tensor::DType::bf16},
                                              std::pair{profile::Collective::all_reduce, tensor::DType::fp32},
                                              std::pair{profile::Collective::all_to_all, tensor::DType::u8},
                                              std::pair{profile::Collective::send_receive, tensor::DType::u8}};

/// Rows that were timed on devices, in the form of those of hosts. The data of the rows were not checked.
inline std::vector<bench::CollectiveFigures> figures_of(const comm::Communicator& group,
                                                        std::span<const bench::BenchRow> rows) {
  std::vector<bench::CollectiveFigures> figures;
  for (const bench::BenchRow& row : rows)
    figures.push_back({.group = group.name(),
                       .ranks = group.size(),
                       .op = row.op,
                       .dtype = row.dtype,
                       .bytes = row.bytes,
                       .count = row.count,
                       .us = row.us,
                       .algbw = row.algbw,
                       .busbw = row.busbw});
  return figures;
}

#endif

}  // namespace shard8::app

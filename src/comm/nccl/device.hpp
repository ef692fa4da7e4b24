// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "comm/device.hpp"
#include "comm/watchdog.hpp"

namespace shard8::comm::nccl {

/// How groups gather in memory of Communicator::gather_memory, and those on the compute stream alone reduce in
/// it. Elsewhere, and in groups that cannot, NCCL does it in the plain way; Device::describe says so.
enum class Gather : std::uint8_t {
  automatic,  ///< push where ranks can, else nccl
  nccl,       ///< kernels of NCCL
  zero_cta,   ///< copy engines driven by NCCL on a symmetric window, in groups with a gather lane
  push,       ///< copy engines driven by this program, see PeerMemory; on the compute stream ExchangeMemory
};
std::string_view name_of(Gather gather);

struct Settings {
  Gather gather = Gather::automatic;
  int gather_ctas = 0;  ///< thread blocks that one collective of NCCL may take, at most; 0: as it chooses
  int reduce_ctas = 0;  ///< the same of reductions on a lane of their own
  /// The same on the compute stream, in groups whose large collectives go through peers' memory: NCCL takes
  /// device memory for each thread block that it may use.
  int small_ctas = 4;
  /// A call that is longer under way ends the job: see CallClock for what counts.
  HangLimits limits;
  /// Told by another thread what hangs or failed (operation, group, rank, bytes): it must end the job.
  std::function<void(const std::string&)> alarm;
};

/// The current device, whose kernels go to `compute`, with collectives by NCCL. Collective over `world`,
/// all ranks of the job; throws AgreedError(environment) when two share a device.
std::shared_ptr<Device> make_device(const Communicator& world, cudaStream_t compute, Settings settings);

}  // namespace shard8::comm::nccl

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
#include "comm/host_waits.hpp"

namespace shard8::comm::nccl {

/// How groups gather in memory of Communicator::gather_memory; groups whose only lane is the compute stream reduce in
/// it, too. In other memory, and in groups that cannot use this way, NCCL's kernels gather and reduce; Device::describe
/// says so.
enum class Gather : std::uint8_t {
  automatic,  ///< push where the ranks can, else nccl
  nccl,       ///< kernels of NCCL
  zero_cta,   ///< copy engines that NCCL drives, in a symmetric window; only in groups with a gather lane
  push,       ///< copy engines that this program drives (PeerMemory); on the compute stream kernels (ExchangeMemory)
};
std::string_view name_of(Gather gather);

struct Settings {
  Gather gather = Gather::automatic;
  int gather_ctas = 0;  ///< most thread blocks of one gather by NCCL; 0: as NCCL chooses
  int reduce_ctas = 0;  ///< most thread blocks of one reduction by NCCL on a lane of its own; 0: as NCCL chooses
  /// Most thread blocks of one collective by NCCL on the compute stream, in groups whose large collectives go through
  /// peers' memory. NCCL takes device memory for each thread block that it may use.
  int small_ctas = 4;
  /// Ranks of a node may have the same device. NCCL then takes each rank for a node of its own and moves what it moves
  /// through sockets, so this is for tests and trials. Every rank's device must have the memory of all of its ranks.
  bool share_devices = false;
  /// A call that takes longer ends the job. CallClock says how the time of a call counts.
  HangLimits limits;
  /// Another thread calls this with what hangs or failed (operation, group, rank, bytes). The function must end the
  /// job.
  std::function<void(const std::string&)> alarm;
};

/// The current device with collectives by NCCL; its kernels run on `compute`. Collective over `world`, all ranks of the
/// job. Throws AgreedError(environment) when two ranks have the same device and `settings.share_devices` is false. When
/// it is true, this must be the first use of NCCL in the process.
std::shared_ptr<Device> make_device(const Communicator& world, cudaStream_t compute, Settings settings);

}  // namespace shard8::comm::nccl

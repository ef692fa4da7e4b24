// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace shard8::kernels::cuda {

/// Launches a kernel that ends when `nanoseconds` have passed since it began. The kernel's `blocks` blocks read
/// `memory`, of `bytes` bytes, over and over, all together `bytes_per_ns` bytes in a nanosecond or as fast as they can.
/// With one block and no `memory` the kernel only spins. The clock of the device has steps of up to 1 us: a single wait
/// is known to that, the mean of many is not changed by it.
void launch_wait(cudaStream_t stream, std::uint64_t nanoseconds, int blocks, const std::uint64_t* memory,
                 std::size_t bytes, double bytes_per_ns);

}  // namespace shard8::kernels::cuda

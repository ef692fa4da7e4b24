// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// SHARD8_EXEC_SPACE is the default execution space of the Kokkos that is built with. It is named
/// here without a header of Kokkos: only what launches kernels includes one, and on GPUs only that
/// goes through the device's compiler.
namespace Kokkos {
class SHARD8_EXEC_SPACE;
}

namespace shard8::tensor {

/// The execution space of all portable kernels. Instances (streams) are passed in, first argument;
/// nobody constructs one below app.
using Exec = Kokkos::SHARD8_EXEC_SPACE;

/// Whether tensors are in the memory of a device, which hosts must not touch.
#if defined(SHARD8_CUDA)
inline constexpr bool kDevice = true;
#else
inline constexpr bool kDevice = false;
#endif

}  // namespace shard8::tensor

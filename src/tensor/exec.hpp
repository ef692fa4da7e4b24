// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// SHARD8_EXEC_SPACE is the default execution space of the Kokkos library of the build. It is named here without a
/// header of Kokkos: only sources that launch kernels include one, and with GPUs only those need the device's compiler.
namespace Kokkos {
class SHARD8_EXEC_SPACE;
}

namespace shard8::tensor {

/// The execution space of all portable kernels. An instance (a stream) is always passed in, as the first argument; only
/// app constructs one.
using Exec = Kokkos::SHARD8_EXEC_SPACE;

/// Whether tensors are in the memory of a device, which the host must not access.
#if defined(SHARD8_CUDA)
inline constexpr bool kDevice = true;
#else
inline constexpr bool kDevice = false;
#endif

}  // namespace shard8::tensor

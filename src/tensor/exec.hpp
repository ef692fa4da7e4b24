// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// SHARD8_EXEC_SPACE is the default execution space of the Kokkos library of the build. It is declared here without a
/// Kokkos header. So only sources that launch kernels include Kokkos, and in a build for GPUs only those need the
/// device's compiler.
namespace Kokkos {
class SHARD8_EXEC_SPACE;
}

namespace shard8::tensor {

/// The execution space of all portable kernels. An instance stands for one stream on a device, or for a set of threads
/// on hosts. It is always passed in, as the first argument; only app constructs one.
using Exec = Kokkos::SHARD8_EXEC_SPACE;

/// Whether tensors lie in the memory of a device. The host must then not access them; tensor/transfer.hpp copies.
#if defined(SHARD8_CUDA)
inline constexpr bool kDevice = true;
#else
inline constexpr bool kDevice = false;
#endif

}  // namespace shard8::tensor

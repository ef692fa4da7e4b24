// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks a function that runs on hosts and, where a device's compiler reads it, on devices too. (As
/// KOKKOS_INLINE_FUNCTION, for headers that plain CUDA includes.)
#if defined(__CUDACC__)
#define SHARD8_FUNCTION __host__ __device__ __forceinline__
#else
#define SHARD8_FUNCTION inline
#endif

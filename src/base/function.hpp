// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks an inline function that runs on hosts and, compiled by a device's compiler, on devices as well. It does what
/// KOKKOS_INLINE_FUNCTION does, for headers that plain CUDA sources include.
#if defined(__CUDACC__)
#define SHARD8_FUNCTION __host__ __device__ __forceinline__
#else
#define SHARD8_FUNCTION inline
#endif

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "tensor/cuda/device.hpp"

namespace shard8::tests {

/// The exit code that CTest reads as "skipped".
inline constexpr int kSkipped = 77;

/// Whether the environment variable SHARD8_SHARE_DEVICES lets ranks of a node have the same device.
inline bool share_devices() { return std::getenv("SHARD8_SHARE_DEVICES") != nullptr; }

/// The number of this rank's device: each rank of a node has a device of its own, unless they share_devices(). If any
/// node has fewer devices than ranks that need their own, or none, every rank gets nothing, and rank 0 writes the reason
/// to stderr. Collective over `world`.
inline std::optional<int> rank_device(MPI_Comm world) {
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int local = 0, ranks = 0, rank = 0;
  MPI_Comm_rank(node, &local);
  MPI_Comm_size(node, &ranks);
  MPI_Comm_rank(world, &rank);
  MPI_Comm_free(&node);
  const int devices = tensor::cuda::device_count();
  int enough = devices >= (share_devices() ? 1 : ranks) ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &enough, 1, MPI_INT, MPI_MIN, world);
  if (enough != 0) return local % devices;
  if (rank == 0) std::fprintf(stderr, "skipped: %d ranks on a node with %d devices\n", ranks, devices);
  return std::nullopt;
}

}  // namespace shard8::tests

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// The shortest program whose MPI_Finalize does not return with MPICH 4.0 and UCX over TCP, in about half of its runs:
//   scripts/virtual-nodes 4 --timeout 5 build/cpu/tests/virtual_nodes_finalize
// A rank that is done waits for the others in a barrier of PMI. There it does not answer those that still flush their
// connections to it (pmodels/mpich#6596). shard8 leaves: comm::Environment::leave_with().
#include <mpi.h>

#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const char mine = 0;
  std::vector<char> all(static_cast<std::size_t>(ranks));
  MPI_Allgather(&mine, 1, MPI_CHAR, all.data(), 1, MPI_CHAR, MPI_COMM_WORLD);
  MPI_Finalize();
}

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace shard8::comm {

/// The value of an environment variable, or nothing.
using Variables = std::function<std::optional<std::string>(const std::string& name)>;
Variables process_variables();

/// What is wrong with how the ranks were started, or nothing. It is wrong if Slurm or a launcher that speaks PMI, or
/// that of Open MPI, started several processes but MPI counts another number of ranks, because the library did not
/// understand the launcher. After `srun --mpi=none`, for example, each task would train alone.
std::optional<std::string> launch_problem(const Variables& variable, int ranks);

/// What to add to the message that a job has too few ranks: which launcher this process has, by its variables, if MPI
/// counts one rank and the launcher may have started more. Empty if nothing says so.
std::string launcher_hint(const Variables& variable, int ranks);

/// Whether this process reports such a problem: one of those that were started together does, which cannot agree.
bool reports_launch(const Variables& variable);

/// Whether the launcher says that all ranks are on one node: Hydra (mpiexec of MPICH) or Slurm. False if it says
/// nothing.
bool on_one_node(const Variables& variable);

/// Call it before MPI is initialised. If all ranks are on one node and MPI is MPICH, UCX is told to leave the network
/// out (UCX_TLS=self,sm), unless the user has chosen transports or devices for it. Ranks of a node do not need the
/// network, and with its TCP transport MPI_Finalize of MPICH 4.0 may not return (pmodels/mpich#6596): a rank waits for
/// the others without making progress, while another rank needs it to close their connection.
void prepare_mpi();

/// Room of a file system, in bytes.
struct Room {
  std::uint64_t total = 0, free = 0;
};
/// The room of a folder's file system; nothing if it cannot be found.
std::optional<Room> room_of(const std::string& folder);

/// Why MPI cannot start on this node, or nothing: UCX takes memory of /dev/shm for each rank, and ends the process in a
/// stack of its own where there is none. `library` is library_text(). Nothing for other libraries than MPICH's device
/// ch4:ucx, and where the user has chosen UCX's transports.
std::optional<std::string> shared_memory_problem(const Variables& variable, const std::string& library,
                                                 const std::optional<Room>& shared);

/// What the MPI library says of itself and how it was configured, in several lines. Works before MPI is initialised.
std::string library_text();
/// One line that names the MPI library and its version. Works before MPI is initialised.
std::string library_version();

}  // namespace shard8::comm

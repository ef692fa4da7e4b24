// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/environment.hpp"

#include <cstdlib>

namespace shard8::app {

std::vector<std::pair<std::string, std::string>> relevant_environment() {
  constexpr const char* kVariables[] = {"OMP_NUM_THREADS",
                                        "OMP_PROC_BIND",
                                        "OMP_PLACES",
                                        "OPENBLAS_NUM_THREADS",
                                        "OPENBLAS_CORETYPE",
                                        "KOKKOS_TOOLS_LIBS",
                                        "MPIR_CVAR_ASYNC_PROGRESS",
                                        "HDF5_USE_FILE_LOCKING",
                                        "SLURM_JOB_ID",
                                        "SLURM_NTASKS",
                                        "SLURM_CPUS_PER_TASK"};
  std::vector<std::pair<std::string, std::string>> found;
  for (const char* name : kVariables)
    if (const char* value = std::getenv(name); value != nullptr) found.emplace_back(name, value);
  return found;
}

}  // namespace shard8::app

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "app/environment.hpp"

#include <unistd.h>

#include <string_view>

#include "profile/summary_file.hpp"

namespace shard8::app {

std::vector<std::pair<std::string, std::string>> relevant_environment() {
  // Threads, memory, devices and their libraries, networks, file systems, and what the job was given.
  constexpr std::string_view kPrefixes[] = {"OMP_",         "GOMP_",
                                            "KMP_",         "OPENBLAS_",
                                            "MKL_",         "BLIS_",
                                            "GOTO_",        "KOKKOS_",
                                            "MALLOC_",      "GLIBC_TUNABLES",
                                            "LD_PRELOAD",   "CUDA_",
                                            "CUBLAS",       "CUDNN_",
                                            "NVIDIA_",      "NCCL_",
                                            "MPIR_",        "MPICH_",
                                            "UCX_",         "FI_",
                                            "PSM",          "HDF5_",
                                            "SHARD8_",      "SLURM_JOB_ID",
                                            "SLURM_NTASKS", "SLURM_CPUS_PER_TASK"};
  return profile::variables_with(environ, kPrefixes);
}

}  // namespace shard8::app

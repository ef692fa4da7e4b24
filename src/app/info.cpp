// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <cstdlib>

#include "app/commands.hpp"
#include "app/device.hpp"
#include "app/threads.hpp"
#include "base/version.hpp"
#include "comm/library.hpp"
#include "io/hdf5_version.hpp"
#include "kernels/blas.hpp"
#include "tensor/runtime.hpp"

namespace shard8::app {

namespace {

void line(std::string_view name, std::string_view value) { fmt::print("{:<12} {}\n", name, value); }

/// Variables that change what a run does or how fast it is.
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

}  // namespace

int info_command() {
  const base::Version v = base::version();
  line("shard8", fmt::format("{} ({})", v.number, v.git_hash));
  line("build", fmt::format("{}, {}, -march={}{}{}", v.build_type, v.compiler, v.march.empty() ? "default" : v.march,
                            v.sanitizers.empty() ? "" : ", sanitizers ", v.sanitizers));
  line("backends",
       tensor::kDevice ? "communication nccl, started over mpi; devices cuda" : "communication mpi; devices host");
  for (const std::string& text : describe_devices()) line("devices", text);
  line("Kokkos", tensor::kokkos_description());
  line("MPI", comm::library_version());
  line("HDF5", io::hdf5_version());
  line("BLAS", kernels::blas_description());
  line("fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100));
  for (const char* name : kVariables)
    if (const char* value = std::getenv(name); value != nullptr) line("environment", fmt::format("{}={}", name, value));
  return 0;
}

}  // namespace shard8::app

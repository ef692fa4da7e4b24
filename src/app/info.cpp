// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include "app/commands.hpp"
#include "app/device.hpp"
#include "app/process.hpp"
#include "base/version.hpp"
#include "comm/launch.hpp"
#include "io/io_thread.hpp"
#include "kernels/libraries.hpp"
#include "tensor/runtime.hpp"

namespace shard8::app {

namespace {

void line(std::string_view name, std::string_view value) { fmt::print("{:<12} {}\n", name, value); }

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
  for (const auto& [name, value] : relevant_environment()) line("environment", fmt::format("{}={}", name, value));
  return 0;
}

}  // namespace shard8::app

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "tensor/exec.hpp"

namespace shard8::tensor {

/// Initialises Kokkos until the end of its scope, and owns the instance on which all kernels of a run are launched. On
/// a device the instance is a stream of its own, never the default stream.
class Runtime {
 public:
  struct Settings {
    int threads = 1;  ///< on hosts
    int device = 0;   ///< among the devices that this process sees; hosts ignore it
  };
  explicit Runtime(const Settings& settings);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const Exec& exec() const;
  /// Threads on which kernels run. 1 on a device, where workspaces do not depend on threads, and with a Kokkos without
  /// threads, whatever the settings say.
  int threads() const;

 private:
  struct Instance;
  std::unique_ptr<Instance> instance_;
};

/// Version and execution space of Kokkos: "5.0.2, kernels on OpenMP".
std::string kokkos_description();

}  // namespace shard8::tensor

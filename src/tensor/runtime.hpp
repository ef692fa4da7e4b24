// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "tensor/exec.hpp"

namespace shard8::tensor {

/// Kokkos from here to the end of scope, and the instance on which all of a run's kernels go. On a
/// device that is a stream of its own, never the default one.
class Runtime {
 public:
  struct Settings {
    int threads = 1;  ///< of hosts
    int device = 0;   ///< among those that this process sees; hosts have none
  };
  explicit Runtime(const Settings& settings);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const Exec& exec() const;
  /// Threads that kernels run on; on a device 1: their workspace does not depend on it. (A Kokkos
  /// without threads has one whatever it is given.)
  int threads() const;

 private:
  struct Instance;
  std::unique_ptr<Instance> instance_;
};

/// "5.0.2, kernels on OpenMP".
std::string kokkos_description();

}  // namespace shard8::tensor

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "tensor/exec.hpp"

namespace shard8::tests {

/// Kokkos from here to the end of scope; one per test program, made by its main function. On a device
/// with an instance of its own, whose stream does not wait for the default one.
class Execution {
 public:
  /// `device` among those that this process sees; hosts have none.
  explicit Execution(int device);
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

 private:
  struct Instance;
  std::unique_ptr<Instance> instance_;
};

/// The instance that tests compute on.
const tensor::Exec& exec();
/// Threads that its kernels run on; on a device 1, as tensor::Runtime has it.
int threads();

}  // namespace shard8::tests

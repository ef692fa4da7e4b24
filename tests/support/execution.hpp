// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "tensor/runtime.hpp"

namespace shard8::tests {

/// Starts Kokkos, and ends it at the end of the scope. The main function of a test program constructs exactly one. On a
/// device the execution space instance has a stream of its own, which does not wait for the default stream.
class Execution {
 public:
  /// `device` is a number among the devices that this process sees. Hosts ignore it.
  explicit Execution(int device);
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

 private:
  struct Instance;
  std::unique_ptr<Instance> instance_;
};

/// The execution space instance that tests compute on. Aborts if there is no Execution.
const tensor::Exec& exec();
/// The number of threads that kernels of exec() run on; 1 on a device, as in tensor::Runtime.
int threads();
/// An execution space instance of so many threads; null on devices and without threads.
std::shared_ptr<const tensor::Exec> exec_of_threads(int count);

}  // namespace shard8::tests

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "tensor/exec.hpp"

namespace shard8::comm::tests {

/// An execution space instance on a stream, for sources without Kokkos. The stream must live longer.
class StreamExec {
 public:
  explicit StreamExec(cudaStream_t stream);
  ~StreamExec();
  StreamExec(const StreamExec&) = delete;
  StreamExec& operator=(const StreamExec&) = delete;
  const tensor::Exec& get() const;

 private:
  struct Instance;
  std::unique_ptr<Instance> instance_;
};

}  // namespace shard8::comm::tests

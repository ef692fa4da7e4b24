// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "tensor/exec.hpp"

namespace shard8::tensor {

/// An execution space instance on another stream of the device than the run's. The stream must live longer.
class StreamExec {
 public:
  /// `stream`: a cudaStream_t. Error(failed) in a build for hosts.
  explicit StreamExec(void* stream);
  ~StreamExec();
  StreamExec(const StreamExec&) = delete;
  StreamExec& operator=(const StreamExec&) = delete;
  const Exec& get() const;

 private:
  struct Instance;
  std::unique_ptr<Instance> instance_;
};

}  // namespace shard8::tensor

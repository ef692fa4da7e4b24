// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "tensor/exec.hpp"

namespace shard8::tensor::cuda {

/// A CUDA stream, owned. It does not wait for the default stream.
class Stream {
 public:
  /// `high`: waiting blocks of the stream's kernels get free multiprocessors before those of normal streams.
  enum class Urgency { normal, high };
  explicit Stream(Urgency urgency = Urgency::normal);
  ~Stream();
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }
  operator cudaStream_t() const { return stream_; }  // NOLINT: passed to CUDA as it is

 private:
  cudaStream_t stream_ = nullptr;
};

/// The CUDA stream of an execution space instance. Only builds for devices define it.
cudaStream_t stream_of(const Exec& exec);

}  // namespace shard8::tensor::cuda

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "tensor/exec.hpp"

namespace shard8::tensor::cuda {

/// Destroys what CUDA made.
struct Destroy {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};

/// A CUDA event, owned: a place in a stream that other streams and the host can wait for. An event that was never
/// recorded counts as happened.
class Event {
 public:
  /// Whether the event records its time, which takes more time on the device.
  enum class Times { no, yes };
  explicit Event(Times times = Times::no);

  /// Records the event in `stream`: it happens when all work given to the stream so far is done.
  void record(cudaStream_t stream) const;
  /// Makes all work that is given to `stream` from now on wait for the last record().
  void hold(cudaStream_t stream) const;
  /// Whether the last record() has happened. Does not wait.
  bool happened() const;
  /// Blocks the host until the last record() has happened.
  void synchronize() const;
  /// Seconds from `start` to this event. Both must record times and must have happened.
  double seconds_since(const Event& start) const;

 private:
  std::unique_ptr<CUevent_st, Destroy> event_;
};

/// A CUDA stream, owned. It does not wait for the default stream.
class Stream {
 public:
  /// `high`: waiting blocks of the stream's kernels get free multiprocessors before those of normal streams.
  enum class Urgency { normal, high };
  explicit Stream(Urgency urgency = Urgency::normal);

  cudaStream_t get() const { return stream_.get(); }
  operator cudaStream_t() const { return get(); }  // NOLINT: passed to CUDA as it is

 private:
  std::unique_ptr<CUstream_st, Destroy> stream_;
};

/// The CUDA stream of an execution space instance. Only builds for devices define it.
cudaStream_t stream_of(const Exec& exec);

}  // namespace shard8::tensor::cuda

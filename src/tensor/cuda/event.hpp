// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

namespace shard8::tensor::cuda {

/// A CUDA event: a place in a stream that other streams and the host can wait for.
class Event {
 public:
  /// Those that take times cost more.
  enum class Times { no, yes };
  explicit Event(Times times = Times::no);
  ~Event();
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream) const;
  /// What `stream` is given from now on waits for the last record(); nothing if there was none.
  void hold(cudaStream_t stream) const;
  bool happened() const;
  /// Waits on the host.
  void synchronize() const;
  /// Seconds from `start` to this; both take times and have happened.
  double seconds_since(const Event& start) const;

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace shard8::tensor::cuda

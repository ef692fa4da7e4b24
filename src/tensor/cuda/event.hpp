// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

namespace shard8::tensor::cuda {

/// A CUDA event: a place in a stream that other streams and the host can wait for.
class Event {
 public:
  /// Whether the event records its time, which costs more.
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
  /// Work given to `stream` from now on waits for the last record(); without one it does not wait.
  void hold(cudaStream_t stream) const;
  bool happened() const;
  /// Blocks the host until the event happened.
  void synchronize() const;
  /// Seconds from `start` to this event. Both must record times and must have happened.
  double seconds_since(const Event& start) const;

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace shard8::tensor::cuda

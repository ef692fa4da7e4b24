// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

namespace shard8::tensor::cuda {

/// A CUDA event: a place in a stream that other streams and the host can wait for. An event that was never recorded
/// counts as happened.
class Event {
 public:
  /// Whether the event records its time, which takes more time on the device.
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
  cudaEvent_t event_ = nullptr;
};

}  // namespace shard8::tensor::cuda

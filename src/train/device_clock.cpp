// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/device_clock.hpp"

#if defined(SHARD8_CUDA)
#include "tensor/cuda/event.hpp"
#include "tensor/cuda/stream.hpp"
#endif

namespace shard8::train {

#if defined(SHARD8_CUDA)

namespace {

using tensor::cuda::Event;

class DeviceClock final : public profile::StepClock {
 public:
  explicit DeviceClock(cudaStream_t stream) : stream_(stream) {}

  void begin() override {
    used_ = 0;
    mark();
  }
  void mark() override {
    if (used_ == events_.size()) events_.emplace_back(Event::Times::yes);
    events_[used_++].record(stream_);
  }
  std::span<const double> finish() override {
    events_[used_ - 1].synchronize();
    seconds_.clear();
    for (std::size_t i = 1; i < used_; ++i) seconds_.push_back(events_[i].seconds_since(events_[i - 1]));
    return seconds_;
  }
  bool sparing() const override { return true; }

 private:
  cudaStream_t stream_;
  std::vector<Event> events_;  ///< made in the first steps, then used again
  std::size_t used_ = 0;
  std::vector<double> seconds_;
};

}  // namespace

std::unique_ptr<profile::StepClock> make_clock(const tensor::Exec& exec) {
  return std::make_unique<DeviceClock>(tensor::cuda::stream_of(exec));
}

#else

std::unique_ptr<profile::StepClock> make_clock(const tensor::Exec&) { return std::make_unique<profile::HostClock>(); }

#endif

}  // namespace shard8::train

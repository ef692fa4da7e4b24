// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/call_clock.hpp"
#include "comm/describe.hpp"
#include "comm/device.hpp"
#include "comm/nccl/group_info.hpp"
#include "tensor/cuda/event.hpp"
#include "tensor/cuda/stream.hpp"

namespace shard8::comm::nccl {

class Lane;

/// A collective that was given to a lane.
class Call final : public DeviceCall {
 public:
  /// Before start: one tensor more whose bytes count.
  void count(const tensor::Tensor& t) { add_bytes(sizes_, t); }

  void wait() override;
  bool test() override;

 private:
  friend class Lane;
  using Clock = std::chrono::steady_clock;
  using Event = tensor::cuda::Event;
  struct Times {
    Event begin{Event::Times::yes}, end{Event::Times::yes}, wait{Event::Times::yes};
  };
  explicit Call(Lane& lane) : lane_(lane) { sizes_.reserve(kDTypes); }
  const Event& begin() const { return timed_ ? times_->begin : begin_; }
  const Event& done() const { return timed_ ? times_->end : done_; }

  static constexpr std::size_t kDTypes = 4;  ///< in a call, if not more

  Lane& lane_;
  Call* next_ = nullptr;
  std::shared_ptr<const GroupInfo> group_;
  profile::Collective op_{};
  std::vector<DTypeBytes> sizes_;
  std::uint64_t number_ = 0;
  CallClock clock_;        ///< under the lane's mutex
  bool released_ = false;  ///< nobody looks at it any more
  bool timed_ = false;     ///< there is a log
  bool measured_ = false;  ///< which was measuring when this was waited for
  Event begin_, done_;
  std::optional<Times> times_;
};

/// A stream with collectives on it, in the order in which they were given: the compute stream itself, or
/// one beside it, of greater urgency, on which each waits for what the compute stream was given before.
/// Calls and their events are used again when they are complete and were waited for.
class Lane {
 public:
  /// The compute stream itself.
  Lane(std::string_view name, cudaStream_t compute);
  /// A stream beside it.
  static std::unique_ptr<Lane> beside(std::string_view name, cudaStream_t compute);
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  cudaStream_t stream() const { return own_ ? own_->get() : compute_; }

  /// A call that is neither counted nor started yet.
  Call& next(const std::shared_ptr<const GroupInfo>& group, profile::Collective op);
  /// From here on it is watched. What the compute stream was given comes before it.
  void start(Call& call);
  /// All of it was given to stream(). Null on the compute stream.
  DeviceCall* end(Call& call);

  /// Records in their logs those measured calls that are complete and released, and takes them back.
  void record_calls();
  /// Makes as many calls again as were ever under way: so that, looked after once in so much time, none is made.
  void make_spare_calls();
  /// Waits on the host for all calls; then the same.
  void drain();

  /// The first call that takes longer than `limit`, as CallClock counts, in words. For another thread.
  std::optional<std::string> overdue(Call::Clock::time_point now, Call::Clock::duration limit);

 private:
  friend class Call;
  /// So many calls may be under way before the oldest are looked at in passing.
  static constexpr int kUnderWay = 256;

  bool take_back_oldest();
  Call& make_call();
  void record(const Call& call) const;
  std::string describe(const Call& call, std::string_view problem, Call::Clock::time_point now) const;

  std::string_view name_;
  cudaStream_t compute_;
  std::optional<tensor::cuda::Stream> own_;
  tensor::cuda::Event ready_;
  std::vector<std::unique_ptr<Call>> calls_;
  Call* free_ = nullptr;
  std::mutex mutex_;  // of the list of calls under way, oldest first
  Call* oldest_ = nullptr;
  Call* newest_ = nullptr;
  int under_way_ = 0;
  std::uint64_t started_ = 0;
};

}  // namespace shard8::comm::nccl

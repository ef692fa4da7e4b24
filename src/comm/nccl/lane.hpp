// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "comm/nccl/call.hpp"
#include "tensor/cuda/device.hpp"

namespace shard8::comm::nccl {

/// A stream with collectives on it, in the order in which the host issued them. A lane is on the compute stream, or on
/// a stream of its own with greater urgency. On a stream of its own each collective waits for what the compute stream
/// was given before.
///
/// A call goes through next(), start(), end() and, on a stream of its own, DeviceCall::wait(). The lane takes it back
/// with its events when it is over (Call::over): in next() when many calls are under way, in record_calls() and in
/// drain(). The call's times are read only then. The program's thread calls every function but overdue().
class Lane {
 public:
  /// A lane on the stream `own`, or, without it, on the compute stream. `name` is static text.
  Lane(std::string_view name, cudaStream_t compute, std::optional<tensor::cuda::Stream> own = std::nullopt);
  /// A lane with a stream of its own.
  static std::unique_ptr<Lane> with_own_stream(std::string_view name, cudaStream_t compute);
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  cudaStream_t stream() const { return streams_.collectives; }

  /// A call without tensors that is not started yet. `label`, static text that may be empty, names the matrix product.
  Call& next(const std::shared_ptr<const GroupInfo>& group, profile::Collective op, std::string_view label = {});
  /// The host begins to issue the call: from here on the watchdog sees it. What the compute stream was given before
  /// comes before it. `words`: see CallsUnderWay::add.
  void start(Call& call, peer::CallWords words = {});
  /// See CallsUnderWay::extend. To be called between start() and end().
  void extend(Call& call, std::uint32_t last_number) { under_way_.extend(call, last_number); }
  /// What the compute stream was given so far comes before what stream() is given from now on.
  void follow_compute();
  /// The host has issued all of the call to stream(). Null on the compute stream.
  DeviceCall* end(Call& call);

  /// Records the measured calls that are over, and makes them free.
  void record_calls();
  /// Makes more calls, twice as many as were ever under way, so that steps like those so far make no new ones. A
  /// program that trains several decks one after the other calls it in each.
  void make_spare_calls();
  /// Waits on the host for all calls, then records them.
  void drain();
  /// Traced calls are timed from `origin`, whose event must outlive the lane.
  void set_trace_origin(const TraceOrigin& origin) { origin_ = origin; }

  /// See CallsUnderWay::overdue. The watchdog's thread calls the function.
  std::optional<std::string> overdue(CallsUnderWay::Clock::time_point now, CallsUnderWay::Clock::duration limit,
                                     const peer::WordsReader& reader) {
    return under_way_.overdue(now, limit, reader);
  }

 private:
  /// Calls under way from which on next() looks whether the oldest can be taken back.
  static constexpr std::size_t kUnderWay = 256;

  bool take_back_oldest();

  std::optional<tensor::cuda::Stream> own_;
  Streams streams_;
  tensor::cuda::Event ready_;  ///< of follow_compute()
  CallPool pool_;
  CallsUnderWay under_way_;
  std::uint64_t started_ = 0;
  TraceOrigin origin_;
};

}  // namespace shard8::comm::nccl

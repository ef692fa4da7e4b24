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
#include "comm/nccl/check.hpp"
#include "comm/peer/words_reader.hpp"
#include "tensor/cuda/event.hpp"
#include "tensor/cuda/stream.hpp"

namespace shard8::comm::nccl {

class Lane;

/// A collective on a lane.
class Call final : public DeviceCall {
 public:
  /// Adds a tensor whose bytes count. Before Lane::start.
  void count(const tensor::Tensor& t) { add_bytes(sizes_, t); }

  void wait() override;
  bool test() override;

  /// The stream of the lane has come to the end of the call's next part. Between Lane::start and Lane::end.
  void end_part();
  /// What the compute stream is given from now on waits for the i-th part that ended. Before wait().
  void await_part(std::size_t i);

 private:
  friend class Lane;
  using Clock = std::chrono::steady_clock;
  using Event = tensor::cuda::Event;
  struct Times {
    Event begin{Event::Times::yes}, end{Event::Times::yes}, wait{Event::Times::yes};
  };
  /// When the part was there, and when the compute stream came to wait for it.
  struct Part {
    explicit Part(Event::Times times) : there(times), wait(times) {}
    Event there, wait;
    bool awaited = false;
  };
  explicit Call(Lane& lane) : lane_(lane) { sizes_.reserve(kDTypes); }
  /// Whether its times are read: for the log, or for a trace.
  bool recorded() const { return measured_ || traced_ != 0; }
  const Event& begin() const { return timed_ ? times_->begin : begin_; }
  const Event& done() const { return timed_ ? times_->end : done_; }

  static constexpr std::size_t kDTypes = 4;  ///< dtypes in a call for which memory is reserved

  Lane& lane_;
  Call* next_ = nullptr;
  std::shared_ptr<const GroupInfo> group_;
  profile::Collective op_{};
  std::string_view label_;
  std::vector<DTypeBytes> sizes_;
  std::uint64_t number_ = 0;
  CallClock clock_;           ///< under the lane's mutex
  peer::CallWords words_;     ///< under the lane's mutex
  bool released_ = false;     ///< no caller uses it any more
  bool timed_ = false;        ///< its group has a log
  bool measured_ = false;     ///< the log was measuring when the call was waited for
  std::uint64_t traced_ = 0;  ///< handle of the trace; 0: not traced
  Event begin_, done_;
  std::optional<Times> times_;
  std::vector<Part> parts_;   ///< kept and used again
  bool parts_timed_ = false;  ///< they record times
  std::size_t parts_ended_ = 0;
};

/// A stream with collectives on it, in the order in which the host issued them. It is the compute stream, or a stream
/// of its own with greater urgency. On a stream of its own each collective waits for what the compute stream was given
/// before. Calls and their events are used again when they are complete and were waited for.
class Lane {
 public:
  /// A lane on the compute stream.
  Lane(std::string_view name, cudaStream_t compute);
  /// A lane with a stream of its own.
  static std::unique_ptr<Lane> with_own_stream(std::string_view name, cudaStream_t compute);
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  cudaStream_t stream() const { return own_ ? own_->get() : compute_; }

  /// A call without tensors that is not started yet. `label`, static text that may be empty, names the matrix product.
  Call& next(const std::shared_ptr<const GroupInfo>& group, profile::Collective op, std::string_view label = {});
  /// The host begins to issue the call: from here on the watchdog sees it. What the compute stream was given before
  /// comes before it. `words` tell the watchdog how far peers are, if the call goes through their memory.
  void start(Call& call, peer::CallWords words = {});
  /// The call has chunks up to this number, as peer::CallWords counts them. Between start() and end().
  void extend(Call& call, std::uint32_t last_number);
  /// What the compute stream was given so far comes before what stream() is given from now on.
  void follow_compute();
  /// The host has issued all of the call to stream(). Null on the compute stream.
  DeviceCall* end(Call& call);

  /// Records the measured calls that are complete and released, and makes them free.
  void record_calls();
  /// Makes more calls, twice as many as were ever under way, so that steps like those so far make no new ones. A
  /// program that trains several decks one after the other calls it in each.
  void make_spare_calls();
  /// Waits on the host for all calls, then records them.
  void drain();
  /// Traced calls are timed from `origin`, which happened at `ns` of the host's clock. It must outlive the lane.
  void set_trace_origin(const tensor::cuda::Event& origin, std::int64_t ns) {
    origin_ = &origin;
    origin_ns_ = ns;
  }

  /// Describes the first call that takes longer than `limit`, as CallClock counts, and says what of which peers is
  /// missing, as far as `reader` can read it. For another thread.
  std::optional<std::string> overdue(Call::Clock::time_point now, Call::Clock::duration limit,
                                     const peer::WordsReader& reader);

 private:
  friend class Call;
  /// Calls under way from which on next() looks whether the oldest can be taken back.
  static constexpr int kUnderWay = 256;

  struct Overdue {
    std::string text;
    peer::CallWords words;
    bool running;  ///< the host has issued all of the call
  };

  bool take_back_oldest();
  std::optional<Overdue> find_overdue(Call::Clock::time_point now, Call::Clock::duration limit);
  void trace(const Call& call, double total, double exposed) const;
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
  int under_way_ = 0, most_under_way_ = 0;
  std::uint64_t started_ = 0;
  const tensor::cuda::Event* origin_ = nullptr;  ///< of traces; null: there are none
  std::int64_t origin_ns_ = 0;
};

}  // namespace shard8::comm::nccl

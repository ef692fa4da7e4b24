// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/describe.hpp"
#include "comm/device.hpp"
#include "comm/host_waits.hpp"
#include "comm/nccl/communicator.hpp"
#include "comm/peer/words_reader.hpp"
#include "tensor/cuda/device.hpp"

/// Collectives on a stream of a device: what each one is, its events, what its events say in the log and the trace, and
/// how long it may take.
///
/// Threads: the program's thread, which issues collectives, calls every function here but overdue(). While a call is in
/// CallsUnderWay, the watchdog's thread reads the call's subject(), and queries whether begin() and done() happened.
namespace shard8::comm::nccl {

/// The streams of a lane. The two are one stream if the lane's collectives run on the compute stream.
struct Streams {
  cudaStream_t collectives = nullptr, compute = nullptr;
  bool apart() const { return collectives != compute; }
};

/// Places events in traces, whose times are ns of the host's steady clock: the event `at` happened at `ns`.
struct TraceOrigin {
  const tensor::cuda::Event* at = nullptr;  ///< null: there are no traces
  std::int64_t ns = 0;
};

/// A collective, from Lane::next until the lane takes it back. The events of a call are kept, and are used again by
/// later calls.
class Call final : public DeviceCall {
 public:
  /// What logs, traces and messages say of the call. The subject does not change while the call is under way.
  struct Subject {
    std::shared_ptr<const GroupInfo> group;
    profile::Collective op{};
    std::string_view label;         ///< the matrix product; may be empty
    std::vector<DTypeBytes> sizes;  ///< of this call
    std::uint64_t number = 0;       ///< of the lane's calls, from 1 on
  };

  explicit Call(const Streams& streams);

  /// Makes it another call, without tensors, that is not issued yet.
  void begin_new(const std::shared_ptr<const GroupInfo>& group, profile::Collective op, std::string_view label);
  /// Adds a tensor whose bytes count. To be called before issued().
  void count(const tensor::Tensor& t) { add_bytes(subject_.sizes, t); }
  /// The host begins to issue the call, which is the lane's `number`-th. Tells the trace.
  void issued(std::uint64_t number);
  const Subject& subject() const { return subject_; }

  /// Happens when the stream comes to the call. The lane records it.
  const tensor::cuda::Event& begin() const { return timed_ ? times_->begin : begin_; }
  /// Happens when the call is complete. The lane records it.
  const tensor::cuda::Event& done() const { return timed_ ? times_->end : done_; }

  void wait() override;
  bool test() override { return done().happened(); }
  /// No caller uses the call any more. wait() calls it. A call on the compute stream, which nobody waits for, is
  /// released when all of it is issued.
  void release();
  /// Whether the call was released, and all events that log and trace need have happened.
  bool over() const;

  /// The stream has come to the end of the call's next part. To be called after begin() was recorded and before done()
  /// is recorded.
  void end_part();
  /// What the compute stream is given from now on waits for the i-th part that ended. To be called before wait().
  void await_part(std::size_t i);

  /// Writes the times of a call that is over to its group's log, if the log was measuring when the call was released,
  /// and to the log's trace, if that traces the call.
  void report(const TraceOrigin& origin) const;

  /// Makes the events of a call that is `timed` or not, and has `parts` parts, so that none is made later.
  void prepare(bool timed, std::size_t parts);
  std::size_t parts() const { return parts_.size(); }
  bool timed() const { return times_.has_value(); }

 private:
  using Event = tensor::cuda::Event;
  struct Times {
    Event begin{Event::Times::yes}, end{Event::Times::yes}, wait{Event::Times::yes};
  };
  struct Part {
    explicit Part(Event::Times times) : there(times), wait(times) {}
    Event there, wait;  ///< when the part was there, and when the compute stream came to wait for it
    bool awaited = false;
  };
  /// Whether the call's times are read.
  bool recorded() const { return measured_ || traced_ != 0; }
  void add_part() { parts_.emplace_back(parts_timed_ ? Event::Times::yes : Event::Times::no); }
  void trace(const TraceOrigin& origin, double total_s, double exposed_s) const;

  Streams streams_;
  Subject subject_;
  bool timed_ = false;  ///< the group has a log
  bool released_ = false;
  bool measured_ = false;     ///< the log was measuring when the call was released
  std::uint64_t traced_ = 0;  ///< handle of the trace; 0: not traced
  Event begin_, done_;        ///< of calls that are not timed, which cost the device less
  std::optional<Times> times_;
  std::vector<Part> parts_;
  bool parts_timed_ = false;
  std::size_t parts_ended_ = 0;
};

/// Owns the calls of a lane. A call that was given back is taken again, with its events. The program's thread alone
/// uses it.
class CallPool {
 public:
  explicit CallPool(const Streams& streams) : streams_(streams) {}
  /// A free call, or a new one if none is free.
  Call& take();
  /// Nobody uses the call any more, the watchdog included.
  void give_back(Call& call) { free_.push_back(&call); }
  /// Makes calls until there are `count`, each with the events that the calls so far have needed.
  void grow_to(std::size_t count);

 private:
  Call& make();

  Streams streams_;
  std::vector<std::unique_ptr<Call>> all_;
  std::vector<Call*> free_;  ///< has room for all
};

/// The calls of a lane that are under way, oldest first: from where the host begins to issue a call until the lane
/// takes it back. Two threads use it. The program's thread alone changes the list. The watchdog's thread alone calls
/// overdue().
///
/// The mutex guards the list, and the clock and words of each call in it. The mutex does not guard the calls: while a
/// call is in the list its subject does not change, and its events are recorded before launched() tells so. The
/// program's thread reads the list without the mutex.
class CallsUnderWay {
 public:
  using Clock = CallClock::Clock;

  /// `lane`, static text, names the lane in messages.
  explicit CallsUnderWay(std::string_view lane) : lane_(lane) {}

  /// The host begins to issue the call. `words` tell how far peers are, if the call goes through their memory.
  void add(Call& call, peer::CallWords words);
  /// The call has chunks up to this number, as peer::CallWords counts them.
  void extend(const Call& call, std::uint32_t last_number);
  /// The host has issued all of the call: the watchdog may query the call's events.
  void launched(const Call& call);
  /// Null if there is none.
  Call* oldest() const { return list_.empty() ? nullptr : list_.front().call; }
  /// From now on the watchdog does not read the oldest call.
  void remove_oldest();

  std::size_t count() const { return list_.size(); }
  /// The most that were ever under way at once.
  std::size_t most() const { return most_; }
  /// Makes memory for `count` calls.
  void grow_to(std::size_t count);

  /// Describes the first call that takes longer than `limit`, as CallClock counts, and says what of which peers is
  /// missing, as far as `reader` can read it. The watchdog's thread calls the function.
  std::optional<std::string> overdue(Clock::time_point now, Clock::duration limit, const peer::WordsReader& reader);

 private:
  struct Entry {
    Call* call = nullptr;
    CallClock clock;
    peer::CallWords words;
  };
  struct Overdue {
    std::string text;
    peer::CallWords words;
    bool running;  ///< the host has issued all of the call
  };
  Entry& entry_of(const Call& call);
  std::optional<Overdue> find_overdue(Clock::time_point now, Clock::duration limit);
  std::string describe(const Entry& entry, std::string_view problem, Clock::time_point now) const;

  std::string_view lane_;
  std::mutex mutex_;
  std::list<Entry> list_;
  std::list<Entry> spare_;  ///< used again, so that a step allocates nothing; the program's thread alone uses it
  std::size_t most_ = 0;
};

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

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/lane.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "profile/trace_recorder.hpp"
#include "tensor/cuda/check.hpp"

namespace shard8::comm::nccl {

void Call::wait() {
  measured_ = timed_ && group_->log->measuring();
  if (recorded()) times_->wait.record(lane_.compute_);
  done().hold(lane_.compute_);
  released_ = true;
}

void Call::end_part() {
  if (parts_ended_ == parts_.size()) parts_.emplace_back(timed_ ? Event::Times::yes : Event::Times::no);
  Part& part = parts_[parts_ended_++];
  part.awaited = false;
  part.there.record(lane_.stream());
}

void Call::await_part(std::size_t i) {
  Part& part = parts_.at(i);
  if (timed_ && !part.awaited) part.wait.record(lane_.compute_);
  part.awaited = true;
  part.there.hold(lane_.compute_);
}

bool Call::test() { return done().happened(); }

Lane::Lane(std::string_view name, cudaStream_t compute) : name_(name), compute_(compute) {}

std::unique_ptr<Lane> Lane::with_own_stream(std::string_view name, cudaStream_t compute) {
  auto lane = std::make_unique<Lane>(name, compute);
  lane->own_.emplace(tensor::cuda::Stream::Urgency::high);
  return lane;
}

Call& Lane::next(const std::shared_ptr<const GroupInfo>& group, profile::Collective op, std::string_view label) {
  while (under_way_ >= kUnderWay && take_back_oldest()) {
  }
  if (free_ == nullptr) free_ = &make_call();
  Call& call = *std::exchange(free_, free_->next_);
  call.next_ = nullptr;
  call.group_ = group;
  call.op_ = op;
  call.label_ = label;
  call.parts_ended_ = 0;
  call.sizes_.clear();
  call.released_ = false;
  call.timed_ = group->log != nullptr;
  call.measured_ = false;
  call.traced_ = 0;
  if (call.timed_ && !call.times_) call.times_.emplace();
  if (call.timed_ != call.parts_timed_) call.parts_.clear();
  call.parts_timed_ = call.timed_;
  return call;
}

void Lane::start(Call& call, peer::CallWords words) {
  if (call.timed_)
    call.traced_ = record_issue(*call.group_->log, call.op_, call.group_->name, call.group_->size, call.sizes_);
  call.number_ = ++started_;
  {
    const std::lock_guard lock(mutex_);
    call.clock_.issue(Call::Clock::now());
    call.words_ = std::move(words);
    (newest_ == nullptr ? oldest_ : newest_->next_) = &call;
    newest_ = &call;
    most_under_way_ = std::max(most_under_way_, ++under_way_);
  }
  follow_compute();
  call.begin().record(stream());
}

void Lane::extend(Call& call, std::uint32_t last_number) {
  const std::lock_guard lock(mutex_);
  call.words_.numbers.extend_to(last_number);
}

void Lane::follow_compute() {
  if (!own_) return;
  ready_.record(compute_);
  ready_.hold(*own_);
}

DeviceCall* Lane::end(Call& call) {
  call.done().record(stream());
  {
    const std::lock_guard lock(mutex_);
    call.clock_.launch();
  }
  if (own_) return &call;
  call.measured_ = call.timed_ && call.group_->log->measuring();
  call.released_ = true;
  return nullptr;
}

/// Takes back the oldest call under way. False when the call cannot be taken back yet, or there is none.
bool Lane::take_back_oldest() {
  Call* const call = oldest_;
  if (call == nullptr || !call->released_ || !call->done().happened()) return false;
  if (call->recorded() && own_ && !call->times_->wait.happened()) return false;  // the compute stream is behind
  if (call->recorded()) record(*call);
  {
    const std::lock_guard lock(mutex_);
    oldest_ = call->next_;
    if (oldest_ == nullptr) newest_ = nullptr;
    --under_way_;
  }
  call->next_ = std::exchange(free_, call);
  return true;
}

void Lane::record(const Call& call) const {
  const Call::Times& times = *call.times_;
  const double total = times.end.seconds_since(times.begin);
  // On a stream of its own: what was left of the call when the compute stream came to wait for it.
  double exposed = own_ ? std::max(0.0, times.end.seconds_since(times.wait)) : total;
  for (std::size_t i = 0; i < call.parts_ended_; ++i) {
    const Call::Part& part = call.parts_[i];
    if (part.awaited) exposed += std::max(0.0, part.there.seconds_since(part.wait));
  }
  if (call.measured_) {
    record_call(*call.group_->log, call.op_, call.group_->name, call.group_->size, call.sizes_, total, exposed);
    call.group_->log->add_in_flight({call.op_, call.group_->name, call.group_->size}, total);
  }
  trace(call, total, exposed);
}

void Lane::trace(const Call& call, double total, double exposed) const {
  if (call.traced_ == 0 || origin_ == nullptr || call.group_->log->trace() == nullptr) return;
  const auto ns = [](double seconds) { return static_cast<std::int64_t>(seconds * 1e9 + 0.5); };
  const std::int64_t begin = origin_ns_ + ns(call.times_->begin.seconds_since(*origin_));
  const std::int64_t end = begin + ns(total);
  // On the compute stream the next work starts after the call.
  const std::int64_t reached = own_ ? origin_ns_ + ns(call.times_->wait.seconds_since(*origin_)) : end;
  call.group_->log->trace()->completed(call.traced_, begin, end, std::max(reached, end), ns(exposed));
}

void Lane::record_calls() {
  while (take_back_oldest()) {
  }
}

Call& Lane::make_call() { return *calls_.emplace_back(new Call(*this)); }

void Lane::make_spare_calls() {
  const bool timed = !calls_.empty() && calls_.front()->times_.has_value();
  std::size_t parts = 0;
  for (const auto& call : calls_) parts = std::max(parts, call->parts_.size());
  while (calls_.size() < 2 * static_cast<std::size_t>(most_under_way_)) {
    Call& call = make_call();
    if (timed) call.times_.emplace();
    call.parts_timed_ = timed;
    while (call.parts_.size() < parts)
      call.parts_.emplace_back(timed ? Call::Event::Times::yes : Call::Event::Times::no);
    call.next_ = std::exchange(free_, &call);
  }
}

void Lane::drain() {
  SHARD8_CUDA_CHECK(cudaStreamSynchronize(stream()));
  if (own_) SHARD8_CUDA_CHECK(cudaStreamSynchronize(compute_));  // it times the waiting
  record_calls();
}

std::string Lane::describe(const Call& call, std::string_view problem, Call::Clock::time_point now) const {
  std::uint64_t bytes = 0;
  std::string dtypes;
  for (const DTypeBytes& size : call.sizes_) {
    bytes += size.bytes;
    dtypes += fmt::format("{}{}", dtypes.empty() ? "" : ", ", size.dtype);
  }
  return fmt::format("{}{} {} {} {:.0f} s: {} bytes of {}, call {} on the {} stream", name_of(call.op_),
                     call.label_.empty() ? std::string() : fmt::format(" for {}", call.label_), where(*call.group_),
                     problem, std::chrono::duration<double>(call.clock_.time(now)).count(), bytes, dtypes, call.number_,
                     name_);
}

std::optional<Lane::Overdue> Lane::find_overdue(Call::Clock::time_point now, Call::Clock::duration limit) {
  const std::lock_guard lock(mutex_);
  bool first = true;
  for (Call* call = oldest_; call != nullptr; call = call->next_) {
    const CallClock::State state = call->clock_.look(
        now, limit, first, [&] { return call->begin().happened(); }, [&] { return call->done().happened(); });
    if (state == CallClock::State::issue_overdue)
      return Overdue{describe(*call, "has not been given to the device: the host has been at it for", now),
                     call->words_, false};
    if (state == CallClock::State::running_overdue)
      return Overdue{describe(*call, "has been on the device for", now), call->words_, true};
    if (state != CallClock::State::complete) first = false;
  }
  return std::nullopt;
}

std::optional<std::string> Lane::overdue(Call::Clock::time_point now, Call::Clock::duration limit,
                                         const peer::WordsReader& reader) {
  const std::optional<Overdue> call = find_overdue(now, limit);
  if (!call) return std::nullopt;
  const std::optional<std::string> late = reader.late_peers(call->words);  // without the lock: the host may go on
  if (late && !late->empty()) return fmt::format("{}; {} (a rank hangs or a link is down)", call->text, *late);
  if (late && call->running)
    return fmt::format("{}; the data of all other ranks have arrived (this device hangs or a link is down)",
                       call->text);
  // The host may be at a later turn than the numbers tell, but at most one piece further.
  if (late && !call->words.numbers.in_turns)
    return call->text + "; no other rank is behind in what the host has given so far";
  return call->text + "; another rank does not take part in it, or a link is down";
}

}  // namespace shard8::comm::nccl

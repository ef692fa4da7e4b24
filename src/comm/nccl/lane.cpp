// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/lane.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.hpp"
#include "profile/trace_recorder.hpp"
#include "tensor/cuda/device.hpp"

namespace shard8::comm::nccl {

Call::Call(const Streams& streams) : streams_(streams) {
  constexpr std::size_t kDTypes = 4;  // of one call; a call with more allocates
  subject_.sizes.reserve(kDTypes);
}

void Call::begin_new(const std::shared_ptr<const GroupInfo>& group, profile::Collective op, std::string_view label) {
  subject_.group = group;
  subject_.op = op;
  subject_.label = label;
  subject_.sizes.clear();
  released_ = measured_ = false;
  traced_ = 0;
  parts_ended_ = 0;
  timed_ = group->log != nullptr;
  if (timed_ && !times_) times_.emplace();
  if (timed_ != parts_timed_) parts_.clear();
  parts_timed_ = timed_;
}

void Call::issued(std::uint64_t number) {
  subject_.number = number;
  const GroupInfo& group = *subject_.group;
  if (timed_) traced_ = record_issue(*group.log, subject_.op, group.name, group.size, subject_.sizes);
}

void Call::wait() {
  release();
  if (recorded()) times_->wait.record(streams_.compute);
  done().hold(streams_.compute);
}

void Call::release() {
  measured_ = timed_ && subject_.group->log->measuring();
  released_ = true;
}

bool Call::over() const {
  if (!released_ || !done().happened()) return false;
  return !recorded() || !streams_.apart() || times_->wait.happened();  // else the compute stream is behind
}

void Call::end_part() {
  if (parts_ended_ == parts_.size()) add_part();
  Part& part = parts_[parts_ended_++];
  part.awaited = false;
  part.there.record(streams_.collectives);
}

void Call::await_part(std::size_t i) {
  Part& part = parts_.at(i);
  if (timed_ && !part.awaited) part.wait.record(streams_.compute);
  part.awaited = true;
  part.there.hold(streams_.compute);
}

void Call::report(const TraceOrigin& origin) const {
  if (!recorded()) return;
  const double total = times_->end.seconds_since(times_->begin);
  // On a stream of its own: what was left of the call when the compute stream came to wait for it.
  double exposed = streams_.apart() ? std::max(0.0, times_->end.seconds_since(times_->wait)) : total;
  for (std::size_t i = 0; i < parts_ended_; ++i) {
    if (parts_[i].awaited) exposed += std::max(0.0, parts_[i].there.seconds_since(parts_[i].wait));
  }
  const GroupInfo& group = *subject_.group;
  if (measured_) {
    record_call(*group.log, subject_.op, group.name, group.size, subject_.sizes, total, exposed);
    group.log->add_in_flight({subject_.op, group.name, group.size}, total);
  }
  if (traced_ != 0 && origin.at != nullptr && group.log->trace() != nullptr) trace(origin, total, exposed);
}

void Call::trace(const TraceOrigin& origin, double total_s, double exposed_s) const {
  const auto ns = [](double seconds) { return static_cast<std::int64_t>(seconds * 1e9 + 0.5); };
  const std::int64_t begin = origin.ns + ns(times_->begin.seconds_since(*origin.at));
  const std::int64_t end = begin + ns(total_s);
  // On the compute stream the next work starts after the call.
  const std::int64_t reached = streams_.apart() ? origin.ns + ns(times_->wait.seconds_since(*origin.at)) : end;
  subject_.group->log->trace()->completed(traced_, begin, end, std::max(reached, end), ns(exposed_s));
}

void Call::prepare(bool timed, std::size_t parts) {
  if (timed) times_.emplace();
  parts_timed_ = timed;
  while (parts_.size() < parts) add_part();
}

Call& CallPool::make() {
  all_.push_back(std::make_unique<Call>(streams_));
  free_.reserve(all_.capacity());
  return *all_.back();
}

Call& CallPool::take() {
  if (free_.empty()) return make();
  Call& call = *free_.back();
  free_.pop_back();
  return call;
}

void CallPool::grow_to(std::size_t count) {
  const bool timed = !all_.empty() && all_.front()->timed();
  std::size_t parts = 0;
  for (const auto& call : all_) parts = std::max(parts, call->parts());
  while (all_.size() < count) {
    Call& call = make();
    call.prepare(timed, parts);
    give_back(call);
  }
}

void CallsUnderWay::add(Call& call, peer::CallWords words) {
  if (spare_.empty()) spare_.emplace_back();
  Entry& entry = spare_.front();
  entry.call = &call;
  entry.clock.issue(Clock::now());
  entry.words = std::move(words);
  const std::lock_guard lock(mutex_);
  list_.splice(list_.end(), spare_, spare_.begin());
  most_ = std::max(most_, list_.size());
}

CallsUnderWay::Entry& CallsUnderWay::entry_of(const Call& call) {
  const auto found =
      std::find_if(list_.rbegin(), list_.rend(), [&](const Entry& entry) { return entry.call == &call; });
  SHARD8_REQUIRE(found != list_.rend(), "call {} on the {} stream is not under way", call.subject().number, lane_);
  return *found;
}

void CallsUnderWay::extend(const Call& call, std::uint32_t last_number) {
  const std::lock_guard lock(mutex_);
  entry_of(call).words.numbers.extend_to(last_number);
}

void CallsUnderWay::launched(const Call& call) {
  const std::lock_guard lock(mutex_);
  entry_of(call).clock.launch();
}

void CallsUnderWay::remove_oldest() {
  const std::lock_guard lock(mutex_);
  spare_.splice(spare_.begin(), list_, list_.begin());
}

void CallsUnderWay::grow_to(std::size_t count) {
  while (list_.size() + spare_.size() < count) spare_.emplace_back();
}

std::string CallsUnderWay::describe(const Entry& entry, std::string_view problem, Clock::time_point now) const {
  const Call::Subject& call = entry.call->subject();
  std::uint64_t bytes = 0;
  std::string dtypes;
  for (const DTypeBytes& size : call.sizes) {
    bytes += size.bytes;
    dtypes += fmt::format("{}{}", dtypes.empty() ? "" : ", ", size.dtype);
  }
  return fmt::format("{}{} {} {} {:.0f} s: {} bytes of {}, call {} on the {} stream", name_of(call.op),
                     call.label.empty() ? std::string() : fmt::format(" for {}", call.label), where(*call.group),
                     problem, std::chrono::duration<double>(entry.clock.time(now)).count(), bytes, dtypes, call.number,
                     lane_);
}

std::optional<CallsUnderWay::Overdue> CallsUnderWay::find_overdue(Clock::time_point now, Clock::duration limit) {
  const std::lock_guard lock(mutex_);
  bool first = true;
  for (Entry& entry : list_) {
    const Call& call = *entry.call;
    const CallClock::State state = entry.clock.look(
        now, limit, first, [&] { return call.begin().happened(); }, [&] { return call.done().happened(); });
    if (state == CallClock::State::issue_overdue)
      return Overdue{describe(entry, "has not been given to the device: the host has been at it for", now), entry.words,
                     false};
    if (state == CallClock::State::running_overdue)
      return Overdue{describe(entry, "has been on the device for", now), entry.words, true};
    if (state != CallClock::State::complete) first = false;
  }
  return std::nullopt;
}

std::optional<std::string> CallsUnderWay::overdue(Clock::time_point now, Clock::duration limit,
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

Lane::Lane(std::string_view name, cudaStream_t compute, std::optional<tensor::cuda::Stream> own)
    : own_(std::move(own)), streams_{own_ ? own_->get() : compute, compute}, pool_(streams_), under_way_(name) {}

std::unique_ptr<Lane> Lane::with_own_stream(std::string_view name, cudaStream_t compute) {
  return std::make_unique<Lane>(name, compute, tensor::cuda::Stream(tensor::cuda::Stream::Urgency::high));
}

Call& Lane::next(const std::shared_ptr<const GroupInfo>& group, profile::Collective op, std::string_view label) {
  while (under_way_.count() >= kUnderWay && take_back_oldest()) {
  }
  Call& call = pool_.take();
  call.begin_new(group, op, label);
  return call;
}

void Lane::start(Call& call, peer::CallWords words) {
  call.issued(++started_);
  under_way_.add(call, std::move(words));
  follow_compute();
  call.begin().record(stream());
}

void Lane::follow_compute() {
  if (!streams_.apart()) return;
  ready_.record(streams_.compute);
  ready_.hold(streams_.collectives);
}

DeviceCall* Lane::end(Call& call) {
  call.done().record(stream());
  under_way_.launched(call);
  if (streams_.apart()) return &call;
  call.release();
  return nullptr;
}

/// Takes back the oldest call under way. False when the call cannot be taken back yet, or there is none.
bool Lane::take_back_oldest() {
  Call* const call = under_way_.oldest();
  if (call == nullptr || !call->over()) return false;
  call->report(origin_);
  under_way_.remove_oldest();
  pool_.give_back(*call);
  return true;
}

void Lane::record_calls() {
  while (take_back_oldest()) {
  }
}

void Lane::make_spare_calls() {
  pool_.grow_to(2 * under_way_.most());
  under_way_.grow_to(2 * under_way_.most());
}

void Lane::drain() {
  SHARD8_CUDA_CHECK(cudaStreamSynchronize(stream()));
  if (streams_.apart()) SHARD8_CUDA_CHECK(cudaStreamSynchronize(streams_.compute));  // events there time waits
  record_calls();
}

}  // namespace shard8::comm::nccl

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/call.hpp"

#include <algorithm>

#include "profile/trace_recorder.hpp"

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

}  // namespace shard8::comm::nccl

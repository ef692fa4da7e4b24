// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/pending.hpp"

#include <algorithm>
#include <utility>

#include "comm/mpi/group.hpp"
#include "profile/trace_recorder.hpp"

namespace shard8::comm {
namespace {

// The least upper bound of tags that MPI guarantees.
constexpr unsigned kTags = 32768;

double seconds(std::chrono::steady_clock::duration d) { return std::chrono::duration<double>(d).count(); }

std::int64_t nanoseconds(std::chrono::steady_clock::duration d) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(d).count();
}

}  // namespace

PendingCollective::PendingCollective(std::shared_ptr<Group> group, profile::Collective op,
                                     std::span<const tensor::Tensor> tensors, std::string_view label, Begin begin)
    : group_(std::move(group)),
      requests_(&group_->memory),
      label_(label),
      op_(op),
      sizes_(&group_->memory),
      peers_(&group_->memory),
      number_(group_->sequence++) {
  add_all_bytes(sizes_, tensors);
  if (begin == Begin::now) begin_now();
  group_->engine->outstanding.push_back(this);
}

void PendingCollective::begin_now() {
  started_ = Clock::now();
  if (group_->log == nullptr) return;
  group_->log->began(logged_group(), started_);
  in_flight_ = true;
  traced_ = record_issue(*group_->log, op_, group_->name, group_->size, sizes_);
}

profile::CollectiveGroup PendingCollective::logged_group() const { return {op_, group_->name, group_->size}; }

PendingCollective::~PendingCollective() { leave_engine(); }

void PendingCollective::leave_engine() noexcept {
  std::erase(group_->engine->outstanding, this);
  if (std::exchange(in_flight_, false)) group_->log->ended(logged_group(), done_ ? completed_ : Clock::now());
}

/// One after another, so that it is known which one is waited for. All of them progress in any call of MPI.
bool PendingCollective::test_messages() {
  for (; first_pending_ < requests_.size(); ++first_pending_) {
    int complete = 0;
    check_mpi(MPI_Test(&requests_[first_pending_], &complete, MPI_STATUS_IGNORE), "MPI_Test", name_of(op_),
              group_.get());
    if (complete == 0) return false;
  }
  return true;
}

int PendingCollective::peer() const {
  return first_pending_ < peers_.size() ? peers_[first_pending_] : HostWaits::kNoPeer;
}

bool PendingCollective::advance() {
  while (!done_) {
    if (!test_messages() || !ready()) return false;
    requests_.clear();
    peers_.clear();
    first_pending_ = 0;
    if (next_stage()) {
      done_ = true;
      completed_ = Clock::now();
      leave_engine();
    }
  }
  return true;
}

void PendingCollective::wait() {
  const auto entered = Clock::now();
  if (!advance()) wait_for_messages(entered);
  record(Clock::now() - entered);
}

void PendingCollective::record(Clock::duration exposed) const {
  if (group_->log == nullptr) return;
  record_call(*group_->log, op_, group_->name, group_->size, sizes_, seconds(completed_ - started_), seconds(exposed));
  if (traced_ != 0 && group_->log->trace() != nullptr)
    group_->log->trace()->completed(traced_, nanoseconds(started_.time_since_epoch()),
                                    nanoseconds(completed_.time_since_epoch()), profile::trace_now(),
                                    nanoseconds(exposed));
}

HostWaits::Subject PendingCollective::subject() const {
  HostWaits::Subject subject = group_->subject(name_of(op_));
  for (const DTypeBytes& size : sizes_) subject.bytes += size.bytes;
  subject.call = std::uint64_t{number_} + 1;
  subject.label = label_;
  return subject;
}

void PendingCollective::wait_for_messages(Clock::time_point entered) {
  Engine& engine = *group_->engine;
  HostWaits::Wait wait(engine.waits, subject(), entered);
  Pause pause(group_->waiting);
  do {
    wait.set_peer(peer());
    if (group_->waiting == Waiting::spin && !engine.any_staged(this)) {
      check_mpi(MPI_Wait(&requests_[first_pending_], MPI_STATUS_IGNORE), "MPI_Wait", name_of(op_), group_.get());
      ++first_pending_;
      continue;
    }
    engine.advance_staged(this);
    pause();
  } while (!advance());
}

bool PendingCollective::abandon() noexcept {
  auto& give_up = group_->engine->give_up;
  if (!give_up) give_up = Clock::now() + std::chrono::seconds(2);
  try {
    Pause pause(Waiting::yield);
    while (!advance()) {
      if (Clock::now() >= *give_up) break;
      group_->engine->advance_staged(this);
      pause();
    }
  } catch (...) {
    // The exception that is on its way says more than this one.
  }
  if (!done_) leave_engine();
  return done_;
}

int PendingCollective::tag() const { return static_cast<int>(number_ % kTags); }

/// That the last of requests_ is a message to or from `peer`.
void PendingCollective::note_peer(int peer) {
  peers_.resize(requests_.size() - 1, HostWaits::kNoPeer);
  peers_.push_back(peer);
}

void PendingCollective::post_sends(std::pmr::vector<MPI_Request>& list, const std::byte* data, std::size_t bytes,
                                   int to) {
  for (std::size_t first = 0; first < bytes; first += group_->engine->limits.message_bytes) {
    const auto n = static_cast<int>(std::min(group_->engine->limits.message_bytes, bytes - first));
    check_mpi(MPI_Isend(data + first, n, MPI_BYTE, to, tag(), group_->comm, &list.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Isend", name_of(op_), group_.get());
    if (&list == &requests_) note_peer(to);
  }
}

void PendingCollective::send(const std::byte* data, std::size_t bytes, int to) {
  post_sends(requests_, data, bytes, to);
}

void PendingCollective::send_aside(std::pmr::vector<MPI_Request>& list, const std::byte* data, std::size_t bytes,
                                   int to) {
  post_sends(list, data, bytes, to);
}

bool PendingCollective::wait_for(std::pmr::vector<MPI_Request>& list, int to) {
  requests_.swap(list);
  peers_.assign(requests_.size(), to);
  return requests_.empty();
}

void PendingCollective::receive(std::byte* data, std::size_t bytes, int from) {
  for (std::size_t first = 0; first < bytes; first += group_->engine->limits.message_bytes) {
    const auto n = static_cast<int>(std::min(group_->engine->limits.message_bytes, bytes - first));
    check_mpi(
        MPI_Irecv(data + first, n, MPI_BYTE, from, tag(), group_->comm, &requests_.emplace_back(MPI_REQUEST_NULL)),
        "MPI_Irecv", name_of(op_), group_.get());
    note_peer(from);
  }
}

}  // namespace shard8::comm

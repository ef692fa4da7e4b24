// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/pending.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.hpp"
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
      messages_(&group_->memory),
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

/// Tests messages one after another, so that it is known which message is waited for. All messages progress in any call
/// of MPI.
bool PendingCollective::test_messages() {
  for (; first_pending_ < requests_.size(); ++first_pending_) {
    if (requests_[first_pending_] == MPI_REQUEST_NULL) continue;  // was tested before
    int complete = 0;
    MPI_Status message{};
    const int status = MPI_Test(&requests_[first_pending_], &complete, &message);
    if (status == MPI_SUCCESS && complete == 0) return false;
    check_message(status, message, "MPI_Test");
  }
  return true;
}

/// Throws unless the first pending message is complete and has the length that was expected.
void PendingCollective::check_message(int status, const MPI_Status& message, std::string_view call) const {
  const Message expected = first_pending_ < messages_.size() ? messages_[first_pending_] : Message{};
  const bool received = expected.received_bytes >= 0;
  int kind = MPI_SUCCESS, bytes = 0;
  if (received && status != MPI_SUCCESS && MPI_Error_class(status, &kind) != MPI_SUCCESS) kind = MPI_SUCCESS;
  const bool longer = kind == MPI_ERR_TRUNCATE;
  if (!longer) {
    check_mpi(status, call, name_of(op_), group_.get());
    if (!received) return;
    check_mpi(MPI_Get_count(&message, MPI_BYTE, &bytes), "MPI_Get_count", name_of(op_), group_.get());
    if (bytes == expected.received_bytes) return;
  }
  base::fail(base::ExitCode::failed,
             "{} in group '{}' on its rank {} of {}: a message of rank {} has {} bytes, but {} are expected: the two "
             "ranks were given different counts or shapes for this call",
             name_of(op_), group_->name, group_->rank, group_->size, expected.peer,
             longer ? "more" : std::to_string(bytes), expected.received_bytes);
}

int PendingCollective::peer() const {
  return first_pending_ < messages_.size() ? messages_[first_pending_].peer : HostWaits::kNoPeer;
}

bool PendingCollective::advance() {
  while (!done_) {
    if (!test_messages() || !ready()) return false;
    requests_.clear();
    messages_.clear();
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
      MPI_Status message{};
      const int status = MPI_Wait(&requests_[first_pending_], &message);
      check_message(status, message, "MPI_Wait");
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

/// Records that the last of requests_ is a message to or from `peer`.
void PendingCollective::note_message(int peer, int received_bytes) {
  messages_.resize(requests_.size() - 1);
  messages_.push_back({peer, received_bytes});
}

std::size_t PendingCollective::message_count(std::size_t bytes, Ending ending) const {
  const std::size_t most = group_->engine->limits.message_bytes;
  return ending == Ending::with_short ? bytes / most + 1 : (bytes + most - 1) / most;
}

void PendingCollective::post_sends(std::pmr::vector<MPI_Request>& list, const std::byte* data, std::size_t bytes,
                                   int to, Ending ending) {
  const std::size_t most = group_->engine->limits.message_bytes;
  for (std::size_t i = 0; i < message_count(bytes, ending); ++i) {
    const auto n = static_cast<int>(std::min(most, bytes - i * most));
    check_mpi(MPI_Isend(data + i * most, n, MPI_BYTE, to, tag(), group_->comm, &list.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Isend", name_of(op_), group_.get());
    if (&list == &requests_) note_message(to, -1);
  }
}

void PendingCollective::send(const std::byte* data, std::size_t bytes, int to, Ending ending) {
  post_sends(requests_, data, bytes, to, ending);
}

void PendingCollective::send_aside(std::pmr::vector<MPI_Request>& list, const std::byte* data, std::size_t bytes,
                                   int to) {
  post_sends(list, data, bytes, to, Ending::with_last_bytes);
}

bool PendingCollective::wait_for(std::pmr::vector<MPI_Request>& list, int to) {
  requests_.swap(list);
  messages_.assign(requests_.size(), {to, -1});
  return requests_.empty();
}

void PendingCollective::receive(std::byte* data, std::size_t bytes, int from, Ending ending) {
  const std::size_t most = group_->engine->limits.message_bytes;
  for (std::size_t i = 0; i < message_count(bytes, ending); ++i) {
    const auto n = static_cast<int>(std::min(most, bytes - i * most));
    check_mpi(
        MPI_Irecv(data + i * most, n, MPI_BYTE, from, tag(), group_->comm, &requests_.emplace_back(MPI_REQUEST_NULL)),
        "MPI_Irecv", name_of(op_), group_.get());
    note_message(from, n);
  }
}

}  // namespace shard8::comm

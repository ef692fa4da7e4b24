// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/pending.hpp"

#include <algorithm>
#include <utility>

#include "comm/check.hpp"

namespace shard8::comm {
namespace {

// The least upper bound of tags that MPI guarantees.
constexpr unsigned kTags = 32768;

double seconds(std::chrono::steady_clock::duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

PendingCollective::PendingCollective(std::shared_ptr<Group> group, profile::Collective op,
                                     std::span<const tensor::Tensor> tensors)
    : group_(std::move(group)),
      requests_(&group_->memory),
      op_(op),
      sizes_(&group_->memory),
      tag_(static_cast<int>(group_->sequence++ % kTags)),
      started_(Clock::now()) {
  add_all_bytes(sizes_, tensors);
  group_->engine->outstanding.push_back(this);
}

PendingCollective::~PendingCollective() { leave_engine(); }

void PendingCollective::leave_engine() noexcept { std::erase(group_->engine->outstanding, this); }

bool PendingCollective::test_messages() {
  if (requests_.empty()) return true;
  int complete = 0;
  check_mpi(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &complete, MPI_STATUSES_IGNORE),
            "MPI_Testall", name_of(op_), group_.get());
  return complete != 0;
}

bool PendingCollective::advance() {
  while (!done_) {
    if (!test_messages()) return false;
    requests_.clear();
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
  Pause pause(group_->waiting);
  Engine& engine = *group_->engine;
  while (!advance()) {
    if (group_->waiting == Waiting::spin && !engine.any_staged(this)) {
      check_mpi(MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall",
                name_of(op_), group_.get());
      continue;
    }
    engine.advance_staged(this);
    pause();
  }
  if (group_->log != nullptr)
    record_call(*group_->log, op_, group_->name, group_->size, sizes_, seconds(completed_ - started_),
                seconds(Clock::now() - entered));
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

void PendingCollective::send(const std::byte* data, std::size_t bytes, int to) {
  for (std::size_t first = 0; first < bytes; first += group_->engine->limits.message_bytes) {
    const auto n = static_cast<int>(std::min(group_->engine->limits.message_bytes, bytes - first));
    check_mpi(MPI_Isend(data + first, n, MPI_BYTE, to, tag_, group_->comm, &requests_.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Isend", name_of(op_), group_.get());
  }
}

void PendingCollective::receive(std::byte* data, std::size_t bytes, int from) {
  for (std::size_t first = 0; first < bytes; first += group_->engine->limits.message_bytes) {
    const auto n = static_cast<int>(std::min(group_->engine->limits.message_bytes, bytes - first));
    check_mpi(MPI_Irecv(data + first, n, MPI_BYTE, from, tag_, group_->comm, &requests_.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Irecv", name_of(op_), group_.get());
  }
}

}  // namespace shard8::comm

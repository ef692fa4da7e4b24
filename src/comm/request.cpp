// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/request.hpp"

#include <exception>
#include <utility>

#include "comm/pending.hpp"

namespace shard8::comm {

Request::Request() = default;
Request::Request(std::unique_ptr<PendingCollective> pending) : pending_(std::move(pending)) {}
Request::Request(Request&&) noexcept = default;

Request& Request::operator=(Request&& other) noexcept {
  if (this != &other) {
    wait();
    pending_ = std::move(other.pending_);
  }
  return *this;
}

Request::~Request() {
  if (pending_ == nullptr) return;
  if (std::uncaught_exceptions() == 0) {
    wait();
  } else if (!pending_->abandon()) {
    // Peers may never take part again. MPI may still write to its memory, so it is not freed.
    static_cast<void>(pending_.release());
  }
}

void Request::wait() {
  if (pending_ == nullptr) return;
  pending_->wait();
  pending_.reset();
}

bool Request::test() { return pending_ == nullptr || pending_->advance(); }

}  // namespace shard8::comm

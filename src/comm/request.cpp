// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/request.hpp"

#include <cstdio>
#include <exception>
#include <utility>

#include "comm/device.hpp"
#include "comm/mpi/pending.hpp"

namespace shard8::comm {

Request::Request() = default;
Request::Request(Pending pending) : pending_(std::move(pending)) {}
Request::Request(DeviceCall* call) : call_(call) {}
Request::Request(Request&& other) noexcept
    : pending_(std::move(other.pending_)), call_(std::exchange(other.call_, nullptr)) {}

Request& Request::operator=(Request&& other) noexcept {
  if (this != &other) {
    wait_or_die();
    pending_ = std::move(other.pending_);
    call_ = std::exchange(other.call_, nullptr);
  }
  return *this;
}

Request::~Request() {
  if (!active()) return;
  if (std::uncaught_exceptions() == 0) {
    wait_or_die();
  } else if (pending_ != nullptr && !pending_->abandon()) {
    // Peers may never take part again. MPI may still write to its memory, so it is not freed.
    static_cast<void>(pending_.release());
  }
}

void Request::wait() {
  if (DeviceCall* call = std::exchange(call_, nullptr)) call->wait();
  if (pending_ == nullptr) return;
  pending_->wait();
  pending_.reset();
}

/// Where nothing can be thrown: an error of the library here is the end of the rank, and said.
void Request::wait_or_die() noexcept {
  try {
    wait();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "shard8: a collective that nobody waited for failed: %s\n", e.what());
    std::terminate();
  }
}

bool Request::test() {
  if (call_ != nullptr) return call_->test();
  return pending_ == nullptr || pending_->advance();
}

}  // namespace shard8::comm

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/parts.hpp"

#include <cstdio>
#include <exception>
#include <utility>

#include "base/error.hpp"
#include "comm/device.hpp"
#include "comm/mpi/pending.hpp"

namespace shard8::comm {
namespace {

template <class Exchange>
void drop(Exchange* exchange) noexcept {
  if (std::uncaught_exceptions() > 0) {
    if (exchange->abandon()) exchange->give_back();
    return;
  }
  try {
    exchange->finish();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "shard8: a collective that nobody finished failed: %s\n", e.what());
    std::terminate();
  }
  exchange->give_back();
}

template <class Pointer>
auto& used(const Pointer& exchange, const char* call) {
  SHARD8_REQUIRE(exchange != nullptr, "{} of an exchange that was finished or moved from", call);
  return *exchange;
}

/// Calls finish(exchange). The exchange is destroyed also where that throws: it cannot be finished again.
template <class Pointer, class Finish>
void finish_once(Pointer& pointer, const Finish& finish) {
  auto& exchange = used(pointer, "finish");
  static_cast<void>(pointer.release());
  try {
    finish(exchange);
  } catch (...) {
    if (exchange.abandon()) exchange.give_back();
    throw;
  }
  exchange.give_back();
}

}  // namespace

void ScatterExchange::give(int rank, std::int64_t first, std::int64_t rows) {
  base::fail(base::ExitCode::failed,
             "rows {} to {} for rank {}: on hosts, and in a group of one rank, all rows for a rank are given at once",
             first, first + rows - 1, rank);
}

void DropExchange::operator()(GatherExchange* exchange) const noexcept { drop(exchange); }
void DropExchange::operator()(ScatterExchange* exchange) const noexcept { drop(exchange); }

void GatherParts::await(int rank) { used(exchange_, "await").await(rank); }
tensor::Tensor GatherParts::part(std::size_t i, int rank) const { return used(exchange_, "part").part(i, rank); }
void GatherParts::finish() {
  finish_once(exchange_, [](GatherExchange& exchange) { exchange.finish(); });
}

tensor::Tensor ScatterParts::whole() const { return used(exchange_, "whole").whole(); }
void ScatterParts::give(int rank) { used(exchange_, "give").give(rank); }
void ScatterParts::give(int rank, std::int64_t first, std::int64_t rows) {
  used(exchange_, "give").give(rank, first, rows);
}
void ScatterParts::finish() {
  finish_once(exchange_, [](ScatterExchange& exchange) { exchange.finish(); });
}
std::optional<tensor::PartialSums> ScatterParts::finish_partial_sums() {
  std::optional<tensor::PartialSums> partial_sums;
  finish_once(exchange_, [&](ScatterExchange& exchange) { partial_sums = exchange.finish_partial_sums(); });
  return partial_sums;
}

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

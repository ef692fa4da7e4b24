// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/group.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "base/error.hpp"
#include "comm/device.hpp"
#include "comm/mpi/pending.hpp"

namespace shard8::comm {

void Engine::advance() {
  // A collective that completes leaves the list.
  for (std::size_t i = outstanding.size(); i-- > 0;) outstanding[i]->advance();
}

void Engine::advance_staged(const PendingCollective* but) {
  for (std::size_t i = outstanding.size(); i-- > 0;) {
    if (outstanding[i] != but && outstanding[i]->staged()) outstanding[i]->advance();
  }
}

bool Engine::any_staged(const PendingCollective* but) const {
  for (const PendingCollective* pending : outstanding) {
    if (pending != but && pending->staged()) return true;
  }
  return false;
}

Group::Group(MPI_Comm owned, std::string group_name, Waiting way, profile::CollectiveLog* calls,
             std::shared_ptr<Engine> shared, SumOrder sums)
    : comm(owned), name(std::move(group_name)), waiting(way), log(calls), engine(std::move(shared)), order(sums) {
  check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler", "a new communicator", this);
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank", "a new communicator", this);
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size", "a new communicator", this);
}

Group::~Group() {
  // Libraries may wait for the other ranks here; an error of this rank alone must not.
  if (std::uncaught_exceptions() > 0) {
    static_cast<void>(device.release());
    return;
  }
  device.reset();
  if (comm == MPI_COMM_NULL) return;
  int finalized = 0;
  if (MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0) return;
  const HostWaits::Wait wait(engine->waits, subject("MPI_Comm_free"));
  MPI_Comm_free(&comm);
}

DeviceGroup* Group::on_device(std::string_view operation) const {
  SHARD8_REQUIRE(engine->device == nullptr || device != nullptr,
                 "{} in group '{}': the group was given no lane of the device (its split names them)", operation, name);
  return device.get();
}

void Group::copy(std::byte* to, const tensor::Tensor& from) const {
  if (from.empty() || to == from.data) return;
  if (engine->device != nullptr) {
    engine->device->copy(to, from.data, from.bytes());
  } else {
    std::memmove(to, from.data, from.bytes());
  }
}

void Group::poll() const {
  int found = 0;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &found, MPI_STATUS_IGNORE), "MPI_Iprobe", "progress", this);
}

void Group::wait(MPI_Request& request, std::string_view call, std::string_view purpose) const {
  const HostWaits::Wait wait(engine->waits, subject(purpose));
  Pause pause(waiting);
  for (;;) {
    if (waiting == Waiting::spin && !engine->any_staged(nullptr)) {
      check_mpi(MPI_Wait(&request, MPI_STATUS_IGNORE), call, purpose, this);
      return;
    }
    int done = 0;
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), call, purpose, this);
    if (done != 0) return;
    engine->advance_staged(nullptr);
    pause();
  }
}

void check_mpi(int status, std::string_view call, std::string_view purpose, const Group* group) {
  if (status == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(status, text.data(), &length) != MPI_SUCCESS) length = 0;
  const std::string where =
      group == nullptr ? std::string()
                       : fmt::format(" in group '{}' on its rank {} of {}", group->name, group->rank, group->size);
  base::fail(base::ExitCode::failed, "{} for {}{} failed with status {}: {}", call, purpose, where, status,
             std::string_view(text.data(), static_cast<std::size_t>(length)));
}

ScratchPool::Block::Block(Block&& other) noexcept
    : memory_(std::move(other.memory_)),
      bytes_(std::exchange(other.bytes_, 0)),
      pool_(std::exchange(other.pool_, nullptr)) {}

ScratchPool::Block& ScratchPool::Block::operator=(Block&& other) noexcept {
  if (this != &other) {
    give_back();
    memory_ = std::move(other.memory_);
    bytes_ = std::exchange(other.bytes_, 0);
    pool_ = std::exchange(other.pool_, nullptr);
  }
  return *this;
}

void ScratchPool::Block::Free::operator()(std::byte* memory) const noexcept {
  ::operator delete (memory, std::align_val_t{kAlignment});
}

void ScratchPool::Block::give_back() {
  if (ScratchPool* pool = std::exchange(pool_, nullptr)) pool->free_.push_back(std::move(*this));
}

ScratchPool::Block ScratchPool::take(std::size_t bytes) {
  if (bytes == 0) return {};
  // The smallest that is large enough, else the largest, to be replaced.
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (best == free_.end()) {
      best = it;
    } else if (it->bytes_ >= bytes) {
      if (best->bytes_ < bytes || it->bytes_ < best->bytes_) best = it;
    } else if (best->bytes_ < it->bytes_) {
      best = it;
    }
  }
  Block block;
  if (best != free_.end()) {
    block = std::move(*best);
    free_.erase(best);
  }
  if (block.bytes_ < bytes) {
    bytes_ -= block.bytes_;
    block.memory_.reset();
    block.bytes_ = 0;
    auto* memory = measuring_
                       ? nullptr
                       : static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kAlignment}, std::nothrow));
    if (memory == nullptr && !measuring_) {
      base::fail(base::ExitCode::environment,
                 "cannot allocate {} bytes to receive a collective in (the pool holds {} bytes); use fewer ranks "
                 "per node or a larger mesh",
                 bytes, bytes_);
    }
    block.memory_.reset(memory);
    block.bytes_ = bytes;
    bytes_ += bytes;
  }
  block.pool_ = this;
  return block;
}

}  // namespace shard8::comm

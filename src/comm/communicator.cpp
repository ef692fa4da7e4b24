// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/communicator.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "comm/device.hpp"
#include "comm/mpi/group.hpp"
#include "comm/peer/handshake.hpp"
#include "tensor/dtype.hpp"

namespace shard8::comm {
namespace {

MPI_Comm duplicate(MPI_Comm comm, const std::string& name, HostWaits* waits) {
  const HostWaits::Wait wait(waits, {.operation = "MPI_Comm_dup", .group = name});
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup", "a new communicator", nullptr);
  return copy;
}

}  // namespace

Communicator::Communicator(MPI_Comm comm, std::string name, Waiting waiting, profile::CollectiveLog* log,
                           HostWaits* waits, const Limits& limits)
    : Communicator(std::make_shared<Group>(duplicate(comm, name, waits), name, waiting, log,
                                           std::make_shared<Engine>(waits, limits))) {
  SHARD8_REQUIRE(limits.message_bytes > 0 && limits.message_bytes <= Limits{}.message_bytes,
                 "message limit {} is not from 1 to {} bytes", limits.message_bytes, Limits{}.message_bytes);
}

Communicator::Communicator(std::shared_ptr<Group> group)
    : group_(std::move(group)), rank_(group_->rank), size_(group_->size) {}

Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

Communicator Communicator::split(int color, int key, std::string name, DeviceLanes lanes, SumOrder order) const {
  SHARD8_REQUIRE(color >= 0, "split of group '{}' into '{}': color {} is negative", group_->name, name, color);
  MPI_Comm part = MPI_COMM_NULL;
  {
    const HostWaits::Wait wait(group_->engine->waits, group_->subject("MPI_Comm_split"));
    check_mpi(MPI_Comm_split(group_->comm, color, key, &part), "MPI_Comm_split", name, group_.get());
  }
  Communicator made(
      std::make_shared<Group>(part, std::move(name), group_->waiting, group_->log, group_->engine, order));
  made.make_device_group(lanes);
  return made;
}

Communicator Communicator::on_paper(int rank, int size) {
  Communicator planned;
  planned.rank_ = rank;
  planned.size_ = size;
  return planned;
}

Communicator Communicator::same() const { return Communicator(group_); }

void Communicator::make_device_group(DeviceLanes lanes) {
  Device* const device = group_->engine->device.get();
  if (device != nullptr && size_ > 1 && lanes.any()) group_->device = device->make_group(*this, lanes, group_->log);
}

void Communicator::attach(std::shared_ptr<Device> device, DeviceLanes lanes) {
  SHARD8_REQUIRE(group_->engine->device == nullptr && device != nullptr,
                 "group '{}' must be given one device, once: it has one already, or that is none", group_->name);
  group_->engine->device = std::move(device);
  make_device_group(lanes);
}

Device* Communicator::device() const { return group_->engine->device.get(); }

std::shared_ptr<DeviceMemory> Communicator::gather_memory(std::size_t bytes) const {
  return group_->device == nullptr ? nullptr : group_->device->gather_memory(*this, bytes);
}

std::shared_ptr<DeviceMemory> Communicator::reduce_memory(std::size_t bytes) const {
  return group_->device == nullptr ? nullptr : group_->device->reduce_memory(*this, bytes);
}

std::shared_ptr<DeviceMemory> Communicator::all_to_all_memory(std::size_t bytes) const {
  return group_->device == nullptr ? nullptr : group_->device->all_to_all_memory(*this, bytes);
}

std::shared_ptr<PushMemory> Communicator::push_memory(std::size_t bytes) const {
  return group_->device == nullptr ? nullptr : group_->device->push_memory(*this, bytes);
}

bool Communicator::can_push() const {
  return group_->device != nullptr && size() > 1 && group_->device->uses_memory_of_peers(*this);
}

void Communicator::begin_push(PushMemory& memory, std::span<const tensor::Tensor> sent, std::string_view label,
                              PeersRead peers_read) const {
  SHARD8_REQUIRE(group_->device != nullptr, "push in group '{}': a device and several ranks are needed", group_->name);
  group_->device->begin_push(memory, sent, label, peers_read);
}

Request Communicator::end_push() const { return Request(group_->device->end_push()); }

std::size_t Communicator::reduce_memory_bytes(std::size_t shard_bytes, int group_size) {
  return tensor::aligned(shard_bytes) * static_cast<std::size_t>(group_size - 1);
}

std::shared_ptr<DeviceMemory> Communicator::all_reduce_memory(std::size_t bytes) const {
  const bool sums = group_->order == SumOrder::tree && all_reduce_memory_bytes(bytes, size_) > 0;
  return group_->device == nullptr || !sums ? nullptr : group_->device->all_reduce_memory(*this, bytes);
}

std::size_t Communicator::all_reduce_memory_bytes(std::size_t bytes, int group_size) {
  // Chosen: the messages of a turn then take far longer than the turn's start.
  constexpr std::size_t kEnough = std::size_t{16} << 20;
  if (group_size <= 2 || group_size > peer::kMostRanks) return 0;
  return std::clamp(tensor::aligned(bytes), tensor::kAlignment * static_cast<std::size_t>(group_size - 1), kEnough);
}

void Communicator::record_device_calls() const {
  if (group_->engine->device != nullptr) group_->engine->device->record_calls();
}

void Communicator::set_trace_origin() const {
  if (group_->engine->device != nullptr) group_->engine->device->set_trace_origin();
}

void Communicator::first_step_over() const {
  if (group_->engine->waits != nullptr) group_->engine->waits->first_step_over();
  if (group_->engine->device != nullptr) group_->engine->device->first_step_over();
}

const std::string& Communicator::name() const { return group_->name; }
SumOrder Communicator::order() const { return group_->order; }
Waiting Communicator::waiting() const { return group_->waiting; }
HostWaits* Communicator::waits() const { return group_->engine->waits; }
void Communicator::progress() const { group_->engine->advance(); }
std::size_t Communicator::scratch_bytes() const { return group_->scratch.bytes(); }

}  // namespace shard8::comm

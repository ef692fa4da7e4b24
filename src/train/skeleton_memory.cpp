// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "train/skeleton_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "train/setup.hpp"
#include "train/state.hpp"

namespace shard8::train {
namespace {
constexpr std::size_t kPage = ReservedMemory::kPage;
}

MovedMemory::MovedMemory(const Setup& setup) {
  Setup few = setup;
  // The second micro-batch and all later ones but the last move the same memory.
  few.layout.micro_batches = std::min<std::int64_t>(few.layout.micro_batches, 3);
  const auto calls = [&](const operation::Call& call) {
    if (call.host_values) return;
    for (const tensor::Tensor& t : call.tensors) add(t);
    for (const tensor::Tensor& t : call.own) add(t);
  };
  for (const StepOfRun& kind : kStepsOfRun)
    record_step(
        few, kind, [](const operation::Operation&) {}, calls);
}

void MovedMemory::add(const tensor::Tensor& moved) {
  if (moved.empty()) return;
  const auto place = tensor::Arena::place_of(moved.data);
  auto& ranges = ranges_[static_cast<std::size_t>(place.kind)];
  std::size_t begin = place.offset / kPage * kPage;
  std::size_t end = (place.offset + moved.bytes() + kPage - 1) / kPage * kPage;
  auto at = ranges.upper_bound(begin);
  if (at != ranges.begin() && std::prev(at)->second >= begin) --at;
  while (at != ranges.end() && at->first <= end) {
    begin = std::min(begin, at->first);
    end = std::max(end, at->second);
    at = ranges.erase(at);
  }
  ranges.emplace(begin, end);
}

tensor::MemoryBytes MovedMemory::bytes() const {
  tensor::MemoryBytes bytes{};
  for (std::size_t k = 0; k < bytes.size(); ++k)
    for (const auto& [begin, end] : ranges_[k]) bytes[k] += end - begin;
  return bytes;
}

std::vector<ReservedMemory> MovedMemory::take(const tensor::MemoryBytes& state) const {
  std::vector<ReservedMemory> memory;
  for (std::size_t k = 0; k < state.size(); ++k) {
    memory.emplace_back(state[k]);
    for (const auto& [begin, end] : ranges_[k]) memory.back().commit(begin, end);
  }
  return memory;
}

tensor::MemoryBytes skeleton_state_bytes(const Setup& setup) {
  return State(setup, tensor::ArenaSet::measure(), 0).arenas.bytes();
}

ReservedMemory::ReservedMemory(std::size_t bytes) : bytes_(std::max(bytes, kPage)) {
  void* const found = ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED)
    base::fail(base::ExitCode::environment,
               "{} addresses cannot be reserved: {}; raise the limit on addresses (ulimit "
               "-v), or use more ranks",
               bytes_, std::strerror(errno));
  data_ = static_cast<std::byte*>(found);
}

ReservedMemory::ReservedMemory(ReservedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

ReservedMemory::~ReservedMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

void ReservedMemory::commit(std::size_t begin, std::size_t end) {
  begin = begin / kPage * kPage;
  end = std::min((end + kPage - 1) / kPage * kPage, (bytes_ + kPage - 1) / kPage * kPage);
  if (begin >= end) return;
  if (::mprotect(data_ + begin, end - begin, PROT_READ | PROT_WRITE) != 0)
    base::fail(base::ExitCode::environment,
               "{} bytes cannot be allocated: {}; raise the limit on this process's memory (ulimit -v, the job's "
               "--mem), or use more ranks",
               end - begin, std::strerror(errno));
  std::memset(data_ + begin, 0, end - begin);
}

}  // namespace shard8::train

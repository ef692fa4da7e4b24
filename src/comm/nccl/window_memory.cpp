// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/window_memory.hpp"

#include <exception>
#include <utility>

#include "comm/nccl/check.hpp"
#include "tensor/cuda/check.hpp"

namespace shard8::comm::nccl {
namespace {

// A window begins and ends at multiples of the pages that the library maps.
constexpr std::size_t kPage = std::size_t{2} << 20;
static_assert(kPage % NCCL_WIN_REQUIRED_ALIGNMENT == 0);

}  // namespace

WindowMemory::WindowMemory(const Communicator& group, const GroupInfo& info,
                           std::shared_ptr<NcclCommunicator> communicator, std::size_t bytes)
    : group_(group.same()), communicator_(std::move(communicator)), bytes_(bytes) {
  const std::size_t size = (bytes + kPage - 1) / kPage * kPage;
  const ncclComm_t all = communicator_->get();  // collective where it is the first use
  void* memory = nullptr;
  SHARD8_NCCL_CHECK(ncclMemAlloc(&memory, size), "gather buffers", info, all);
  memory_ = static_cast<std::byte*>(memory);
  SHARD8_NCCL_CHECK(ncclCommWindowRegister(all, memory_, size, &window_, NCCL_WIN_COLL_SYMMETRIC), "gather buffers",
                    info, all);
}

WindowMemory::~WindowMemory() {
  if (std::uncaught_exceptions() > 0) return;  // others may still use it
  if (window_ != nullptr) static_cast<void>(ncclCommWindowDeregister(communicator_->get(), window_));
  static_cast<void>(ncclMemFree(memory_));
}

PlainMemory::PlainMemory(std::size_t bytes) : bytes_(bytes) {
  void* memory = nullptr;
  SHARD8_CUDA_CHECK(cudaMalloc(&memory, bytes_));
  memory_ = static_cast<std::byte*>(memory);
}

PlainMemory::~PlainMemory() { cudaFree(memory_); }

}  // namespace shard8::comm::nccl

// SPDX-FileCopyrightText: 2026 The shard8 authors
// SPDX-License-Identifier: Apache-2.0
// The memory in which a group's collectives are fastest: which kinds there are, and which one a group can have.

#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "comm/nccl/nccl_group.hpp"
#include "tensor/cuda/device.hpp"

namespace shard8::comm::nccl {
namespace {

// A window begins and ends at multiples of the pages that the library maps.
constexpr std::size_t kPage = std::size_t{2} << 20;
static_assert(kPage % NCCL_WIN_REQUIRED_ALIGNMENT == 0);

/// Device memory in a symmetric window of a communicator of NCCL, if NCCL can make one, else plain memory.
class WindowMemory final : public DeviceMemory {
 public:
  /// Collective.
  WindowMemory(const Communicator& group, const GroupInfo& info, std::shared_ptr<NcclCommunicator> communicator,
               std::size_t bytes)
      : group_(group.same()), communicator_(std::move(communicator)), bytes_(bytes) {
    const std::size_t size = (bytes + kPage - 1) / kPage * kPage;
    const ncclComm_t all = communicator_->get();  // collective where it is the first use
    SHARD8_NCCL_CHECK(ncclMemAlloc(&memory_, size), "gather buffers", info, all);
    SHARD8_NCCL_CHECK(ncclCommWindowRegister(all, memory_, size, &window_, NCCL_WIN_COLL_SYMMETRIC), "gather buffers",
                      info, all);
  }
  ~WindowMemory() override {
    if (std::uncaught_exceptions() > 0) return;  // others may still use it
    if (window_ != nullptr) static_cast<void>(ncclCommWindowDeregister(communicator_->get(), window_));
    static_cast<void>(ncclMemFree(memory_));
  }

  std::byte* data() const override { return static_cast<std::byte*>(memory_); }
  std::size_t bytes() const override { return bytes_; }
  /// False when NCCL made no window here. Then gathers take the way of plain memory.
  bool symmetric() const { return window_ != nullptr; }

 private:
  Communicator group_;  // keeps the group alive as long as this
  std::shared_ptr<NcclCommunicator> communicator_;
  std::size_t bytes_;
  void* memory_ = nullptr;
  ncclWindow_t window_ = nullptr;
};

/// Device memory of cudaMalloc.
class PlainMemory final : public DeviceMemory {
 public:
  explicit PlainMemory(std::size_t bytes) : bytes_(bytes) { SHARD8_CUDA_CHECK(cudaMalloc(&memory_, bytes_)); }
  ~PlainMemory() override { cudaFree(memory_); }

  std::byte* data() const override { return static_cast<std::byte*>(memory_); }
  std::size_t bytes() const override { return bytes_; }

 private:
  std::size_t bytes_;
  void* memory_ = nullptr;
};

}  // namespace

/// Whether the settings let a group gather and sum in peers' memory.
bool NcclGroup::may_use_peers() const {
  const Gather asked = device_.settings().gather;
  return asked == Gather::automatic || asked == Gather::push;
}

/// Why peers cannot use each other's memory on a stream; empty if they can. Collective.
std::string NcclGroup::problem_with_peers(const Communicator& group, cudaStream_t stream) {
  if (group.size() > peer::kMostRanks) return fmt::format("the group has more than {} ranks", peer::kMostRanks);
  return peer::PeerBlock::problem(group, stream).value_or("");
}

std::shared_ptr<DeviceMemory> NcclGroup::gather_memory(const Communicator& group, std::size_t bytes) {
  const HostWaits::Wait wait(group.waits(), subject_of("making gather memory", *info_));
  const Route& route = route_of(gather_, "gather memory");
  if (device_.settings().gather == Gather::zero_cta && !exchanges(route)) return window_memory(group, bytes);
  if (may_use_peers()) {
    const std::string problem = problem_with_peers(group, route.lane->stream());
    if (problem.empty()) {
      if (exchanges(route)) {
        device_.state(fmt::format("group '{}': gathers and sums by kernels that write and read peers' memory: active",
                                  info_->name));
        auto memory = std::make_shared<peer::ExchangeMemory>(group, bytes, route.lane->stream());
        exchange_memories_.push_back(memory);
        return memory;
      }
      device_.state(fmt::format("group '{}': gathers by copy engines, pushed to peers: active", info_->name));
      auto memory = std::make_shared<peer::PeerMemory>(group, bytes, route.lane->stream());
      peer_memories_.push_back(memory);
      return memory;
    }
    device_.state(fmt::format("group '{}': gathers by NCCL; by {} is not active: {}", info_->name,
                              exchanges(route) ? "kernels that write peers' memory" : "copy engines", problem));
  } else {
    device_.state(fmt::format("group '{}': gathers by NCCL", info_->name));
  }
  return std::make_shared<PlainMemory>(bytes);
}

std::shared_ptr<DeviceMemory> NcclGroup::window_memory(const Communicator& group, std::size_t bytes) {
  auto memory = std::make_shared<WindowMemory>(group, *info_, gather_.communicator, bytes);
  device_.state(memory->symmetric()
                    ? fmt::format("group '{}': gathers by copy engines of NCCL: active", info_->name)
                    : fmt::format("group '{}': gathers by NCCL; by its copy engines is not active: it has no symmetric "
                                  "memory here (devices of one node with peer access are needed)",
                                  info_->name));
  return memory;
}

std::shared_ptr<DeviceMemory> NcclGroup::reduce_memory(const Communicator& group, std::size_t bytes) {
  const HostWaits::Wait wait(group.waits(), subject_of("making reduce memory", *info_));
  if (reduce_.lane == nullptr || exchanges(reduce_)) return nullptr;
  const cudaStream_t stream = reduce_.lane->stream();
  const std::string problem = problem_with_peers(group, stream);
  if (!problem.empty()) {
    device_.state(fmt::format("group '{}': sums by NCCL; of parts that copy engines push is not active: {}",
                              info_->name, problem));
    return nullptr;
  }
  auto memory = std::make_shared<peer::PushSums>(group, bytes, stream);
  push_sums_ = memory;
  device_.state(fmt::format("group '{}': sums of parts that copy engines push to peers: active", info_->name));
  return memory;
}

std::shared_ptr<DeviceMemory> NcclGroup::all_reduce_memory(const Communicator& group, std::size_t bytes) {
  const HostWaits::Wait wait(group.waits(), subject_of("making all-reduce memory", *info_));
  const Route& route = route_of(all_reduce_, "all-reduce memory");
  auto memory = std::make_shared<TreeSums>(info_, route.communicator, bytes, route.lane->stream());
  tree_sums_ = memory;
  device_.state(
      fmt::format("group '{}': all-reduces of parts that NCCL moves, summed as on hosts: active", info_->name));
  return memory;
}

bool NcclGroup::uses_memory_of_peers(const Communicator& group) {
  const HostWaits::Wait wait(group.waits(), subject_of("trying memory of peers", *info_));
  return may_use_peers() && problem_with_peers(group, device_.compute_lane().stream()).empty();
}

std::shared_ptr<DeviceMemory> NcclGroup::all_to_all_memory(const Communicator& group, std::size_t bytes) {
  const HostWaits::Wait wait(group.waits(), subject_of("making all-to-all memory", *info_));
  if (!may_use_peers()) {
    device_.state(fmt::format("group '{}': all-to-alls by NCCL", info_->name));
    return nullptr;
  }
  const cudaStream_t stream = route_of(gather_, "all-to-all memory").lane->stream();
  const std::string problem = problem_with_peers(group, stream);
  if (!problem.empty()) {
    device_.state(
        fmt::format("group '{}': all-to-alls by NCCL; by copy engines is not active: {}", info_->name, problem));
    return nullptr;
  }
  auto memory = std::make_shared<peer::SlotMemory>(group, bytes, stream);
  slots_ = memory;
  device_.state(fmt::format("group '{}': all-to-alls by copy engines, pushed to peers: active", info_->name));
  return memory;
}

std::shared_ptr<PushMemory> NcclGroup::push_memory(const Communicator& group, std::size_t bytes) {
  const HostWaits::Wait wait(group.waits(), subject_of("making push memory", *info_));
  const cudaStream_t stream = push_lane_.stream();
  const std::string problem =
      may_use_peers() ? problem_with_peers(group, stream) : fmt::format("the deck asks for NCCL");
  if (!problem.empty()) {
    device_.state(fmt::format("group '{}': all-to-alls by kernels that write peers' memory are not active: {}",
                              info_->name, problem));
    return nullptr;
  }
  device_.state(fmt::format("group '{}': all-to-alls by kernels that write peers' memory: active", info_->name));
  return std::make_shared<peer::PushedMemory>(group, bytes, stream);
}

}  // namespace shard8::comm::nccl
